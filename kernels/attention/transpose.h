// A square of numbers in registers, turned.
#pragma once

#include <utility>

#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {

// Lanes and rows whose numbers differ in the bit Step change places, then those of the next bits.
template <int Step, int... Lane>
[[gnu::always_inline]] inline void transpose(Vector (&square)[kVectorFloats],
                                             std::integer_sequence<int, Lane...> lanes) {
  constexpr int kOther = kVectorFloats;  // lanes of the second vector are numbered from here
#pragma GCC unroll 16
  for (int i = 0; i < kVectorFloats; ++i) {
    if ((i & Step) != 0) continue;
    const Vector one = square[i];
    const Vector other = square[i + Step];
    square[i] =
        __builtin_shufflevector(one, other, ((Lane & Step) != 0 ? kOther + Lane - Step : Lane)...);
    square[i + Step] =
        __builtin_shufflevector(one, other, ((Lane & Step) != 0 ? kOther + Lane : Lane + Step)...);
  }
  if constexpr (2 * Step < kVectorFloats) transpose<2 * Step>(square, lanes);
}

}  // namespace fm::kernels::FM_SIMD
