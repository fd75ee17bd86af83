// Panels of an operand, packed for kernels/packed_product.cc: numbers of a few neighbouring
// vectors, term after term, as fp32.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/bf16.h"
#include "kernels/gemm_source.h"
#include "kernels/transpose.h"

namespace fm::kernels::FM_SIMD {

// Four neighbours in memory, as fp32.
using Four [[gnu::vector_size(16)]] = float;
using Two [[gnu::vector_size(8)]] = float;
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

// As many terms of as many vectors as a register has lanes: whole lines are written where it has
// sixteen.
template <std::int64_t kWidth>
[[gnu::always_inline]] inline void turn_square(const float* from, std::int64_t stride, float* to) {
  Vector square[kVectorFloats];
#pragma GCC unroll 16
  for (int i = 0; i < kVectorFloats; ++i) square[i] = load(from + i * stride);
  transpose<1>(square, kEveryLane);
#pragma GCC unroll 16
  for (int i = 0; i < kVectorFloats; ++i) store(square[i], to + i * kWidth);
}
// What turns a panel in squares: elsewhere fours are as fast.
template <std::int64_t kWidth, class T>
inline constexpr bool kSquares =
    kVectorFloats == 16 && kWidth % 16 == 0 && std::is_same_v<T, float>;

// The terms of one number after the other: what is left of a panel, with zeros for the vectors that
// are missing.
template <std::int64_t kWidth, class T>
void pack_singly(const Source<T>& source, Place place, Extent extent, float* to) {
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
  if constexpr (kSquares<kWidth, T>) {
    for (std::int64_t term = 0; term < terms; term += 16) {
      for (std::int64_t i = 0; i < kWidth; i += 16)
        turn_square<kWidth>(from + i * stride + term, stride, to + term * kWidth + i);
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
void pack_panel(const Source<T>& source, Place place, Extent extent, float* to) {
  if (extent.vectors < kWidth) return pack_singly<kWidth>(source, place, extent, to);
  const T* const from = source.at(place.vector, place.term);
  if (!source.adjacent_terms) {
    for (std::int64_t term = 0; term < extent.terms; ++term) {
      for (std::int64_t i = 0; i < kWidth; ++i)
        to[term * kWidth + i] = core::to_float(from[term * source.stride + i]);
    }
    return;
  }
  constexpr std::int64_t kTurned = kSquares<kWidth, T> ? 16 : 4;
  const std::int64_t whole = extent.terms / kTurned * kTurned;
  turn_panel<kWidth>(from, source.stride, whole, to);
  pack_singly<kWidth>(source, {place.vector, place.term + whole}, {kWidth, extent.terms - whole},
                      to + whole * kWidth);
}

// Lines of an operand that will be packed, asked for a few at a time.
template <class T>
class Ahead {
 public:
  // `turns`: how often ask() will be called.
  void start(const Source<T>& source, Place place, Extent extent, std::int64_t turns) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    run_ = source.at(place.vector, place.term);
    stride_ = source.stride;
    run_lines_ = ((source.adjacent_terms ? extent.terms : extent.vectors) + kLine - 1) / kLine;
    lines_ = run_lines_ * (source.adjacent_terms ? extent.vectors : extent.terms);
    a_turn_ = (lines_ + turns - 1) / turns;
    at_ = 0;
  }
  [[gnu::always_inline]] void ask() {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const std::int64_t count = std::min(a_turn_, lines_);
    lines_ -= count;
    for (std::int64_t i = 0; i < count; ++i) {
      __builtin_prefetch(run_ + at_ * kLine, 0, 2);
      if (++at_ == run_lines_) {
        at_ = 0;
        run_ += stride_;
      }
    }
  }

 private:
  const T* run_ = nullptr;
  std::int64_t stride_ = 0;
  std::int64_t run_lines_ = 1;
  std::int64_t lines_ = 0;
  std::int64_t a_turn_ = 0;
  std::int64_t at_ = 0;
};

}  // namespace fm::kernels::FM_SIMD
