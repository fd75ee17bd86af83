// How long a step will take, before one was made: from what this host's products reach.
#pragma once

#include <optional>
#include <string>

#include "core/types.h"

namespace fm::engine {

// GFLOP/s of a large product of this type on one core, the best of a few: some 20 ms.
double measure_core_gflops(core::DType element);

// Seconds of a step of `flops` on `cores` that reach `core_gflops` each. Steps reach three quarters
// of what products do (benchmarks/README.md, W1 and W2).
double step_seconds(double flops, int cores, double core_gflops);

// "about 0.42s per step, 42s for 100 steps (2 cores of 85 GFLOP/s)"
std::string estimate_text(double seconds, std::int64_t steps, int cores, double core_gflops);

}  // namespace fm::engine
