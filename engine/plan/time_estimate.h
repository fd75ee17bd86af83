// How long a step will take, before one was made: from what products reach.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"

namespace fm::engine {

// What computes a step, all of it together.
struct StepRate {
  int computers = 0;   // cores, or cards
  double flops = 0.0;  // per second, of large products, of all of them
  double share = 0.0;  // of it that a step reaches
  std::string text;    // "2 cores of 85 GFLOP/s"

  double seconds(double flops_of_step) const { return flops_of_step / (share * flops); }
};
// Measured on one core with products of this type: some 150 ms. Steps reach three quarters of what
// products do (benchmarks/README.md, W1 and W2).
StepRate rate_of_cores(core::DType element, int cores);
// By the table of engine/plan/device_cards.h. Nothing for a card that is not in it. The share is
// that of the model's arithmetic, and the text says so: links and copies differ from machine to
// machine.
std::optional<StepRate> rate_of_cards(std::string_view card, core::DType element, int cards);

// "about 0.42s per step, 42s for 100 steps (2 cores of 85 GFLOP/s)"
std::string estimate_text(double seconds, std::int64_t steps, const StepRate& rate);

}  // namespace fm::engine
