#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoint/safetensors_file.h"

namespace fm::checkpoint {
namespace {

// IEEE 754-2019, 3.4, table 3.5: value of every binary16 by its definition, in double.
double by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(FloatConvert, EveryHalfIsExact) {
  for (int bits = 0; bits < 65'536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double expected = by_definition(half);
    const float found = f32_of_f16(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(found), expected) << bits;
      ASSERT_EQ(std::signbit(found), std::signbit(expected)) << bits;
    }
  }
}

TEST(FloatConvert, BFloatIsTheUpperHalfOfAFloat) {
  EXPECT_EQ(f32_of_bf16(0x3F80), 1.0F);
  EXPECT_EQ(f32_of_bf16(0xC049), -3.140625F);
  EXPECT_EQ(f32_of_bf16(0x0001), 0x1p-133F);
  EXPECT_EQ(f32_of_bf16(0xFF80), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f32_of_bf16(0x7FC0)));
}

TEST(FloatConvert, ReadsFromOddAddresses) {
  std::vector<std::byte> memory(64);
  const double doubles[] = {1.5, 1.0 + 0x1p-30, -1e300};
  std::memcpy(memory.data() + 3, doubles, sizeof(doubles));
  std::vector<float> out(3);
  to_f32(StoredFloat::kF64, std::span(memory).subspan(3), out);
  EXPECT_EQ(out, (std::vector<float>{1.5F, 1.0F, -std::numeric_limits<float>::infinity()}));
  const std::uint16_t halves[] = {0x3C00, 0xC000, 0x7BFF};
  std::memcpy(memory.data() + 1, halves, sizeof(halves));
  to_f32(StoredFloat::kF16, std::span(memory).subspan(1), out);
  EXPECT_EQ(out, (std::vector<float>{1.0F, -2.0F, 65504.0F}));
  const float floats[] = {1.0F, -0.5F, 1e-40F};
  std::memcpy(memory.data() + 1, floats, sizeof(floats));
  to_f32(StoredFloat::kF32, std::span(memory).subspan(1), out);
  EXPECT_EQ(out, (std::vector<float>{1.0F, -0.5F, 1e-40F}));
}

}  // namespace
}  // namespace fm::checkpoint
