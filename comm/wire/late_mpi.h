// OpenMPI's library, opened when a program was started by mpirun: programs start where it is not.
#pragma once

#include <mpi.h>

namespace fm::comm {

// Functions and objects of libmpi.so.40 by their names in MPI's standard, without "MPI_".
struct Mpi {
  decltype(&::MPI_Allgather) Allgather;
  decltype(&::MPI_Bcast) Bcast;
  decltype(&::MPI_Cancel) Cancel;
  decltype(&::MPI_Comm_create_group) Comm_create_group;
  decltype(&::MPI_Comm_dup) Comm_dup;
  decltype(&::MPI_Comm_group) Comm_group;
  decltype(&::MPI_Comm_rank) Comm_rank;
  decltype(&::MPI_Comm_set_errhandler) Comm_set_errhandler;
  decltype(&::MPI_Comm_size) Comm_size;
  decltype(&::MPI_Error_class) Error_class;
  decltype(&::MPI_Error_string) Error_string;
  decltype(&::MPI_Finalize) Finalize;
  decltype(&::MPI_Finalized) Finalized;
  decltype(&::MPI_Get_count) Get_count;
  decltype(&::MPI_Get_library_version) Get_library_version;
  decltype(&::MPI_Group_free) Group_free;
  decltype(&::MPI_Group_incl) Group_incl;
  decltype(&::MPI_Init_thread) Init_thread;
  decltype(&::MPI_Iprobe) Iprobe;
  decltype(&::MPI_Irecv) Irecv;
  decltype(&::MPI_Isend) Isend;
  decltype(&::MPI_Request_free) Request_free;
  decltype(&::MPI_Test) Test;

  MPI_Comm world;
  MPI_Comm no_comm;
  MPI_Group no_group;
  MPI_Request no_request;
  MPI_Errhandler errors_return;
  MPI_Datatype byte;
};

// Any thread. UserError (10) where the library is missing, which a rank under mpirun cannot do
// without.
const Mpi& mpi();

// Whether the library can be opened here.
bool mpi_is_here();

}  // namespace fm::comm
