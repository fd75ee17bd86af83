#include "checkpoint/float_convert.h"

#include <bit>
#include <cstring>

namespace fm::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

float f32_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float f32_of_f16(std::uint16_t bits) {
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction x 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent - 15U + 127U;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

void to_f32(StoredFloat stored, std::span<const std::byte> bytes, std::span<float> out) {
  const std::byte* at = bytes.data();
  switch (stored) {
    case StoredFloat::kF32:
      if (!out.empty()) std::memcpy(out.data(), at, out.size_bytes());
      break;
    case StoredFloat::kF16:
      for (float& value : out) value = f32_of_f16(load<std::uint16_t>(at)), at += 2;
      break;
    case StoredFloat::kBF16:
      for (float& value : out) value = f32_of_bf16(load<std::uint16_t>(at)), at += 2;
      break;
    case StoredFloat::kF64:
      for (float& value : out) value = static_cast<float>(load<double>(at)), at += 8;
      break;
  }
}

}  // namespace fm::checkpoint
