// Stored floating-point numbers to fp32, from memory of any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fm::checkpoint {

float f32_of_bf16(std::uint16_t bits);
float f32_of_f16(std::uint16_t bits);  // IEEE 754 binary16; exact, subnormals and NaN included

enum class StoredFloat : std::uint8_t { kF32, kF16, kBF16, kF64 };

// out.size() numbers from `bytes` (at least out.size() x width of `stored`). F64 is rounded to
// nearest even; the others are exact.
void to_f32(StoredFloat stored, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace fm::checkpoint
