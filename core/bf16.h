// bf16, the upper half of a float: 8 bits of exponent, 7 of fraction. Kernels load and store it;
// they compute in fp32.
#pragma once

#include <bit>
#include <cstdint>

#include "core/types.h"

namespace fm::core {

struct Bf16 {
  std::uint16_t bits;
};
static_assert(sizeof(Bf16) == 2);

// Always inlined: kernels of one instruction set must not share a function with those of others.
[[gnu::always_inline]] constexpr float to_float(float value) { return value; }
[[gnu::always_inline]] constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Rounds to the nearest, ties to even; what is too large becomes infinity, a NaN stays one (quiet,
// with its sign). Operations on integers and a selection, so that loops become vectors and every
// instruction set gives the same bits.
[[gnu::always_inline]] constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  // As signed numbers: SSE2 compares no others.
  const bool is_nan = static_cast<std::int32_t>(bits & 0x7FFFFFFFU) > 0x7F800000;
  return {static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16)};
}

// T is float or Bf16, the types of a model's elements.
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

template <class T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBF16;

}  // namespace fm::core
