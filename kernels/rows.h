// Matrices that kernels walk row by row, and sums of a row.
#pragma once

#include <cstdint>

namespace fm::kernels {

// Of a row-major matrix.
struct RowShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

// Sums of a row with a fixed virtual width of 16 lanes: lane j adds terms j, j + 16, ..., then the
// lanes are added by the tree of core/tree.h. Scalar, AVX2 and AVX-512 code give the same bits.

inline constexpr std::int64_t kLanes = 16;

// core::tree_sum of the first lanes, a power of 2; they are overwritten.
template <std::int64_t kCount, class T>
[[gnu::always_inline]] inline T lane_tree(T (&lanes)[kLanes]) {
  if constexpr (kCount > 1) {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kCount / 2; ++i) lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
    return lane_tree<kCount / 2>(lanes);
  }
  return lanes[0];
}

// Sum of term(0) .. term(count - 1), each of type T.
template <class T, class Term>
[[gnu::always_inline]] inline T lane_sum(std::int64_t count, const Term& term) {
  T lanes[kLanes] = {};
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  for (std::int64_t i = whole; i < count; ++i) lanes[i - whole] += term(i);
  return lane_tree<kLanes>(lanes);
}

}  // namespace fm::kernels
