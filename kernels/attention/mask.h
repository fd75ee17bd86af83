// What a query of causal attention does not see.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {

template <int... Lane>
[[gnu::always_inline]] inline Vector lane_numbers(std::integer_sequence<int, Lane...>) {
  return Vector{Lane...};
}

// Scores of one query, `width` of them (a multiple of kVectorFloats): those from `first` on become
// -infinity.
[[gnu::always_inline]] inline void hide_from(float* scores, std::int64_t first,
                                             std::int64_t width) {
  const Vector hidden = splat(-std::numeric_limits<float>::infinity());
  const Vector lanes = lane_numbers(kEveryLane);
  for (std::int64_t i = first / kVectorFloats * kVectorFloats; i < width; i += kVectorFloats) {
    const Vector seen = splat(static_cast<float>(first - i));
    store(lanes < seen ? load(scores + i) : hidden, scores + i);
  }
}

}  // namespace fm::kernels::FM_SIMD
