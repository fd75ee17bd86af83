// Sums of a row with a fixed virtual width of 16 lanes: lane j adds terms j, j + 16, ..., then the
// lanes are added by the tree of core/tree.h. Scalar, AVX2 and AVX-512 code give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "core/tree.h"

namespace fm::kernels {

inline constexpr std::int64_t kLanes = 16;

// Sum of term(0) .. term(count - 1), each of type T.
template <class T, class Term>
[[gnu::always_inline]] inline T lane_sum(std::int64_t count, const Term& term) {
  T lanes[kLanes] = {};
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  for (std::int64_t i = whole; i < count; ++i) lanes[i - whole] += term(i);
  return core::tree_sum(std::span<T>(lanes));
}

}  // namespace fm::kernels
