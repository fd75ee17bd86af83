// Panels of an operand, packed for kernels/gemm/packed_product.cc: numbers of a few neighbouring
// vectors, term after term, as fp32.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/element.h"
#include "kernels/gemm/source.h"
#include "kernels/narrow_rows.h"
#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {

// Four neighbours in memory, as fp32.
using Four [[gnu::vector_size(16)]] = float;
using Two [[gnu::vector_size(8)]] = float;
using Eight [[gnu::vector_size(32)]] = float;
[[gnu::always_inline]] inline Four load_four(const float* from) {
  using Anywhere [[gnu::vector_size(16), gnu::aligned(4)]] = float;
  return *reinterpret_cast<const Anywhere*>(from);
}
[[gnu::always_inline]] inline Four load_four(const core::Bf16* from) {
  using Halves [[gnu::vector_size(8)]] = std::uint16_t;
  using HalvesAnywhere [[gnu::vector_size(8), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
  using Bits [[gnu::vector_size(16)]] = std::uint32_t;
  const Halves halves = *reinterpret_cast<const HalvesAnywhere*>(from);
  return std::bit_cast<Four>(__builtin_convertvector(halves, Bits) << 16);
}
#if defined(__F16C__)
[[gnu::always_inline]] inline Four load_four(const core::F16* from) {
  return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
#else
[[gnu::always_inline]] inline Four load_four(const core::F16* from) {
  const Four four = {core::to_float(from[0]), core::to_float(from[1]), core::to_float(from[2]),
                     core::to_float(from[3])};
  return four;
}
#endif
[[gnu::always_inline]] inline void store_four(Four value, float* to) {
  using Anywhere [[gnu::vector_size(16), gnu::aligned(4)]] = float;
  *reinterpret_cast<Anywhere*>(to) = value;
}
// Of widths that are no multiple of four.
[[maybe_unused, gnu::always_inline]] inline void store_two(Two value, float* to) {
  using Anywhere [[gnu::vector_size(8), gnu::aligned(4)]] = float;
  *reinterpret_cast<Anywhere*>(to) = value;
}

// Four terms of four vectors, `stride` apart, become four vectors' numbers of each term, kWidth
// apart.
template <std::int64_t kWidth, class T>
[[gnu::always_inline]] inline void turn_four(const T* from, std::int64_t stride, float* to) {
  const Four a = load_four(from);
  const Four b = load_four(from + stride);
  const Four c = load_four(from + 2 * stride);
  const Four d = load_four(from + 3 * stride);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_four(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), to);
  store_four(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), to + kWidth);
  store_four(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * kWidth);
  store_four(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * kWidth);
}
// The same of two vectors.
template <std::int64_t kWidth, class T>
[[gnu::always_inline]] inline void turn_two(const T* from, std::int64_t stride, float* to) {
  const Four a = load_four(from);
  const Four b = load_four(from + stride);
  const Four low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  store_two(__builtin_shufflevector(low, low, 0, 1), to);
  store_two(__builtin_shufflevector(low, low, 2, 3), to + kWidth);
  store_two(__builtin_shufflevector(high, high, 0, 1), to + 2 * kWidth);
  store_two(__builtin_shufflevector(high, high, 2, 3), to + 3 * kWidth);
}

#if FM_VECTOR_BYTES == 64
// Four terms of four vectors, `stride` apart, side by side: so the loads do half of a square's
// turning.
[[gnu::always_inline]] inline Vector load_fours(const float* from, std::int64_t stride) {
  const Four a = load_four(from);
  const Four b = load_four(from + stride);
  const Four c = load_four(from + 2 * stride);
  const Four d = load_four(from + 3 * stride);
  const Eight ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
  const Eight cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Lanes of two vectors by turns, of each four lanes: the first two of both, the last two of both.
[[gnu::always_inline]] inline Vector first_by_turns(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
[[gnu::always_inline]] inline Vector last_by_turns(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
// The same pair after pair.
[[gnu::always_inline]] inline Vector first_pairs(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
[[gnu::always_inline]] inline Vector last_pairs(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}

// Four terms of sixteen vectors: whole lines are written, `width` apart.
[[gnu::always_inline]] inline void turn_lines(const float* from, std::int64_t stride, float* to,
                                              std::int64_t width) {
  const Vector a = load_fours(from, 4 * stride);
  const Vector b = load_fours(from + stride, 4 * stride);
  const Vector c = load_fours(from + 2 * stride, 4 * stride);
  const Vector d = load_fours(from + 3 * stride, 4 * stride);
  const Vector ab_first = first_by_turns(a, b);
  const Vector cd_first = first_by_turns(c, d);
  const Vector ab_last = last_by_turns(a, b);
  const Vector cd_last = last_by_turns(c, d);
  store(first_pairs(ab_first, cd_first), to);
  store(last_pairs(ab_first, cd_first), to + width);
  store(first_pairs(ab_last, cd_last), to + 2 * width);
  store(last_pairs(ab_last, cd_last), to + 3 * width);
}
#endif
// Whether sixteen vectors are turned at a time: elsewhere four are as fast.
template <class T>
inline constexpr bool kTurnsLines = kVectorFloats == 16 && std::is_same_v<T, float>;

// The terms of one number after the other: what is left of a panel, with zeros for the vectors that
// are missing.
template <std::int64_t kWidth, class T>
void pack_singly(const Source<T>& source, OperandOffset place, Extent extent, float* to) {
  for (std::int64_t term = 0; term < extent.terms; ++term) {
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const bool there = i < extent.vectors;
      to[term * kWidth + i] =
          there ? core::to_float(*source.at(place.vector + i, place.term + term)) : 0.0F;
    }
  }
}

// A panel of adjacent terms: their whole groups.
template <std::int64_t kWidth, class T>
void turn_panel(const T* from, std::int64_t stride, std::int64_t terms, float* to) {
  if constexpr (kTurnsLines<T> && kWidth % 16 == 0) {
    for (std::int64_t i = 0; i < kWidth; i += 16) {  // few rows at a time, along them
#pragma GCC unroll 4
      for (std::int64_t term = 0; term < terms; term += 4)
        turn_lines(from + i * stride + term, stride, to + term * kWidth + i, kWidth);
    }
    return;
  }
  constexpr std::int64_t kFours = kWidth / 4 * 4;
  for (std::int64_t i = 0; i < kFours; i += 4) {
    for (std::int64_t term = 0; term < terms; term += 4)
      turn_four<kWidth>(from + i * stride + term, stride, to + term * kWidth + i);
  }
  if constexpr (kFours < kWidth) {
    for (std::int64_t term = 0; term < terms; term += 4)
      turn_two<kWidth>(from + kFours * stride + term, stride, to + term * kWidth + kFours);
  }
}

// A panel: kWidth numbers of every term, zeros for vectors beyond the extent.
template <std::int64_t kWidth, class T>
void pack_panel(const Source<T>& source, OperandOffset place, Extent extent, float* to) {
  if (extent.vectors < kWidth) return pack_singly<kWidth>(source, place, extent, to);
  const T* const from = source.at(place.vector, place.term);
  if (!source.adjacent_terms) {
    for (std::int64_t term = 0; term < extent.terms; ++term) {
      for (std::int64_t i = 0; i < kWidth; ++i)
        to[term * kWidth + i] = core::to_float(from[term * source.stride + i]);
    }
    return;
  }
  constexpr std::int64_t kTurned = 4;
  const std::int64_t whole = extent.terms / kTurned * kTurned;
  turn_panel<kWidth>(from, source.stride, whole, to);
  pack_singly<kWidth>(source, {place.vector, place.term + whole}, {kWidth, extent.terms - whole},
                      to + whole * kWidth);
}

}  // namespace fm::kernels::FM_SIMD
