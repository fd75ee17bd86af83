// What computes: libraries, instruction sets and threads decide the last bits of every number.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace fm::engine {

struct Arithmetic {
  std::string libraries;  // of GEMM and attention: names, versions, instruction sets
  int threads = 1;        // per rank
};

// Of the calling thread, for a model of this element type.
Arithmetic arithmetic_here(core::DType element);

// "oneDNN 2.6.3 (avx2), attention own, 1 thread per rank"; begins with the libraries. A model in
// bf16 says so first.
std::string text_of(const Arithmetic& arithmetic);

// Collective. Throws UserError (10) on all ranks, naming the first one whose libraries differ from
// rank 0's, both texts and the way out. Numbers of threads may differ, since nobody promises bits
// for more than one: the warning about it is returned, "" when they agree.
std::string check_same_arithmetic(const Arithmetic& mine, comm::Communicator& world);

}  // namespace fm::engine
