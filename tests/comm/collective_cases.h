// One body of collective tests for every backend: threads, tcp and MPI processes run the same.
// Data tells its address: element i on rank r holds 100 r + i. Random values are compared, bit
// for bit, with a tree of sums written here independently of the library.
#pragma once

#include "comm/communicator.h"

namespace fm::comm {

// Throws std::runtime_error naming the case, rank and element of the first difference.
void run_collective_cases(Communicator& world);

// Two ranks: a receive that was dropped before its message came is never written. Throws alike.
void run_abandoned_receive(Communicator& world);

}  // namespace fm::comm
