// The types of a model's elements: float, bf16 (the upper half of a float: 8 bits of exponent, 7 of
// fraction) and fp16 (IEEE binary16: 5 bits of exponent, 10 of fraction). Kernels load and store
// the narrow ones; they compute in fp32.
#pragma once

#include <bit>
#include <cstdint>

#include "core/types.h"

namespace fm::core {

struct Bf16 {
  std::uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);
struct F16 {
  std::uint16_t bits;
};
static_assert(sizeof(F16) == 2);

// What an fp16 can hold, and the first float that rounds to infinity.
inline constexpr float kF16Largest = 65504.0F;
inline constexpr float kF16Overflow = 65520.0F;

// The conversions are operations on integers, additions that are exact or round once, and
// selections, so that loops become vectors and every instruction set gives the same bits.
// Always inlined: kernels of one instruction set must not share a function with those of others.

[[gnu::always_inline]] constexpr float to_float(float value) { return value; }
[[gnu::always_inline]] constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
// Exact; a NaN stays one, quiet, with its sign.
[[gnu::always_inline]] constexpr float to_float(F16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFU;
  // As signed numbers here and below: SSE2 compares no others.
  const auto compared = static_cast<std::int32_t>(magnitude);
  // 2^-14 times what the fraction says, without a denormal float on the way.
  const float small = std::bit_cast<float>(0x38800000U | (magnitude << 13)) - 0x1p-14F;
  const std::uint32_t infinite = (magnitude << 13) | 0x7F800000U;
  const std::uint32_t quiet = compared > 0x7C00 ? infinite | 0x400000U : infinite;
  const std::uint32_t large = compared >= 0x7C00 ? quiet : (magnitude << 13) + 0x38000000U;
  return std::bit_cast<float>(sign |
                              (compared < 0x400 ? std::bit_cast<std::uint32_t>(small) : large));
}

// To the nearest, ties to even; what is too large becomes infinity, a NaN stays one (quiet, with
// its sign).
[[gnu::always_inline]] constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  const bool is_nan = static_cast<std::int32_t>(bits & 0x7FFFFFFFU) > 0x7F800000;
  return {static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16)};
}
[[gnu::always_inline]] constexpr F16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const auto compared = static_cast<std::int32_t>(magnitude);
  // An addition to a half leaves as many bits as a subnormal has, rounded.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t finite = compared < 0x38800000 ? subnormal : normal;
  const std::uint32_t nan = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  const std::uint32_t infinite = compared > 0x7F800000 ? nan : 0x7C00U;
  return {static_cast<std::uint16_t>(sign | (compared >= 0x477FF000 ? infinite : finite))};
}

template <class T>
T to_element(float value) = delete;
template <>
[[gnu::always_inline]] constexpr float to_element<float>(float value) {
  return value;
}
template <>
[[gnu::always_inline]] constexpr Bf16 to_element<Bf16>(float value) {
  return to_bf16(value);
}
template <>
[[gnu::always_inline]] constexpr F16 to_element<F16>(float value) {
  return to_f16(value);
}

template <class T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<F16> = DType::kF16;

}  // namespace fm::core
