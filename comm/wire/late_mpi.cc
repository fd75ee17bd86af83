#include "comm/wire/late_mpi.h"

#include <dlfcn.h>

#include "core/check.h"

namespace fm::comm {
namespace {

// OpenMPI's own parts, which it opens itself, look for its symbols in the whole process.
void* library() {
  static void* const kLibrary = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  return kLibrary;
}

template <class Function>
void find(const char* name, Function*& found) {
  found = reinterpret_cast<Function*>(dlsym(library(), name));
  FM_USER_CHECK(found != nullptr, "OpenMPI 4.1 is required, whose library has ", name,
                "; install Debian's libopenmpi3");
}

void find_functions(Mpi& all) {
  find("MPI_Allgather", all.Allgather);
  find("MPI_Bcast", all.Bcast);
  find("MPI_Cancel", all.Cancel);
  find("MPI_Comm_create_group", all.Comm_create_group);
  find("MPI_Comm_dup", all.Comm_dup);
  find("MPI_Comm_group", all.Comm_group);
  find("MPI_Comm_rank", all.Comm_rank);
  find("MPI_Comm_set_errhandler", all.Comm_set_errhandler);
  find("MPI_Comm_size", all.Comm_size);
  find("MPI_Error_class", all.Error_class);
  find("MPI_Error_string", all.Error_string);
  find("MPI_Finalize", all.Finalize);
  find("MPI_Finalized", all.Finalized);
  find("MPI_Get_count", all.Get_count);
  find("MPI_Get_library_version", all.Get_library_version);
  find("MPI_Group_free", all.Group_free);
  find("MPI_Group_incl", all.Group_incl);
  find("MPI_Init_thread", all.Init_thread);
  find("MPI_Iprobe", all.Iprobe);
  find("MPI_Irecv", all.Irecv);
  find("MPI_Isend", all.Isend);
  find("MPI_Request_free", all.Request_free);
  find("MPI_Test", all.Test);
}

// What MPI's names for objects stand for, which are addresses in OpenMPI.
void find_objects(Mpi& all) {
  find("ompi_mpi_comm_world", all.world);
  find("ompi_mpi_comm_null", all.no_comm);
  find("ompi_mpi_group_null", all.no_group);
  find("ompi_request_null", all.no_request);
  find("ompi_mpi_errors_return", all.errors_return);
  find("ompi_mpi_byte", all.byte);
}

}  // namespace

const Mpi& mpi() {
  static const Mpi kAll = [] {
    FM_USER_CHECK(library() != nullptr,
                  "ranks that mpirun starts need OpenMPI's library; install Debian's libopenmpi3, "
                  "or start them with torchrun (",
                  dlerror(), ")");
    Mpi all{};
    find_functions(all);
    find_objects(all);
    return all;
  }();
  return kAll;
}

bool mpi_is_here() { return library() != nullptr; }

}  // namespace fm::comm
