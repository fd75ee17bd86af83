// The ZeRO stage is one value: which of the three kinds of state every rank holds whole,
// and which is cut into one slice per data rank (arXiv 1910.02054).
#pragma once

#include <cstdint>

#include "core/check.h"

namespace fm::core {

enum class Home : std::uint8_t { kEveryRank, kOneSliceEach };

// "communication_order" of the JSON (ARCHITECTURE, "Order of sums").
enum class SumOrder : std::uint8_t { kFast, kCanonical };

struct ShardPlan {
  Home params = Home::kEveryRank;
  Home grads = Home::kEveryRank;
  Home optimizer = Home::kEveryRank;
  bool reduce_every_micro = false;
};

inline constexpr ShardPlan kPlanOf[] = {
    {Home::kEveryRank, Home::kEveryRank, Home::kEveryRank, false},
    {Home::kEveryRank, Home::kEveryRank, Home::kOneSliceEach, false},
    {Home::kEveryRank, Home::kOneSliceEach, Home::kOneSliceEach, true},
    {Home::kOneSliceEach, Home::kOneSliceEach, Home::kOneSliceEach, true},
};

// The canonical order sums over ranks within each micro-batch first, so it reduces every one.
constexpr ShardPlan plan_of(int zero_stage, SumOrder order) {
  ShardPlan plan = kPlanOf[zero_stage];
  plan.reduce_every_micro = plan.reduce_every_micro || order == SumOrder::kCanonical;
  return plan;
}

}  // namespace fm::core
