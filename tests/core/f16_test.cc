#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/element.h"

namespace fm::core {
namespace {

constexpr std::uint32_t kInfinite = 0x7C00;

// IEEE 754: what the bits of a finite number say.
double value_of(std::uint32_t bits) {
  const auto fraction = static_cast<double>(bits & 0x3FFU);
  const auto exponent = static_cast<int>((bits >> 10) & 0x1FU);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}
float f32(std::uint32_t bits) { return to_float(F16{static_cast<std::uint16_t>(bits)}); }

TEST(F16, EveryFiniteNumberIsTheOneOfItsBits) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    if ((bits & kInfinite) == kInfinite) continue;
    ASSERT_EQ(static_cast<double>(f32(bits)), value_of(bits)) << std::hex << bits;
    ASSERT_EQ(std::signbit(f32(bits)), bits > 0x7FFF);
    ASSERT_EQ(to_f16(f32(bits)).bits, bits);
  }
}

// Between two neighbours: the nearer one, in the middle the even one.
TEST(F16, RoundsToTheNearestAndTiesToEven) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::uint32_t sign : {0x0U, 0x8000U}) {
    const float outwards = sign == 0 ? kInfinity : -kInfinity;
    for (std::uint32_t bits = 0; bits < kInfinite; ++bits) {
      // Beyond the largest number the next one would be 65536.
      const double next = bits + 1 < kInfinite ? value_of(bits + 1) : 65536.0;
      const double middle = (value_of(bits) + next) / 2.0;
      const auto at = static_cast<float>(sign == 0 ? middle : -middle);
      const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      ASSERT_EQ(to_f16(at).bits, sign | even) << at;
      ASSERT_EQ(to_f16(std::nextafter(at, 0.0F)).bits, sign | bits) << at;
      ASSERT_EQ(to_f16(std::nextafter(at, outwards)).bits, sign | (bits + 1)) << at;
    }
  }
}

TEST(F16, TooLargeBecomesInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(f32(to_f16(kF16Largest).bits), 65504.0F);
  EXPECT_EQ(f32(to_f16(std::nextafter(kF16Overflow, 0.0F)).bits), 65504.0F);
  for (const float large : {kF16Overflow, 1e30F, infinity}) {
    EXPECT_EQ(f32(to_f16(large).bits), infinity);
    EXPECT_EQ(f32(to_f16(-large).bits), -infinity);
  }
}

TEST(F16, NanStaysQuietNan) {
  for (const std::uint32_t bits :
       {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    const F16 value = to_f16(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(to_float(value))) << std::hex << bits;
    EXPECT_EQ(value.bits & 0x200U, 0x200U) << std::hex << bits;
    EXPECT_EQ(value.bits >> 15, bits >> 31) << std::hex << bits;
  }
  EXPECT_TRUE(std::isnan(f32(0x7C01)));
  EXPECT_TRUE(std::isnan(f32(0xFFFF)));
}

TEST(F16, NamesItsType) {
  EXPECT_EQ(kDTypeOf<F16>, DType::kF16);
  EXPECT_EQ(to_element<F16>(1.0F).bits, 0x3C00);
}

}  // namespace
}  // namespace fm::core
