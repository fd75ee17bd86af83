// Numbers that are neither infinite nor NaN.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace fm::core {

// Whether an fp32's exponent has all ones. A bit test: it vectorizes, std::isfinite does not.
inline bool is_not_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
}

// Index of the first value that is infinite or NaN.
inline std::optional<std::size_t> first_non_finite(std::span<const float> values) {
  constexpr std::size_t kChunk = 4096;
  for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
    const auto block = values.subspan(begin, std::min(kChunk, values.size() - begin));
    bool any = false;
    for (const float value : block) any |= is_not_finite(value);
    if (!any) continue;
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (is_not_finite(block[i])) return begin + i;
    }
  }
  return std::nullopt;
}

}  // namespace fm::core
