// The stacks that kernels run on: those of the main thread and of OpenMP's threads.
#pragma once

#include <optional>
#include <string>

#include "core/types.h"

namespace fm::machine {

struct Stacks {
  std::optional<core::Bytes> main;        // nothing: no limit
  std::optional<core::Bytes> of_threads;  // the smallest; nothing: there are none
  std::string omp_stacksize;              // OMP_STACKSIZE or GOMP_STACKSIZE; empty: not set
};

// Of this process. OpenMP's threads, as many as kernels use, are made here unless they were before.
Stacks stacks_here();

// Throws UserError (10) for a stack that a matrix product overruns: its packed operands lie there.
void check_stacks(const Stacks& stacks);

}  // namespace fm::machine
