#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/element.h"

namespace fm::core {
namespace {

float rounded(float value) { return to_float(to_bf16(value)); }

TEST(Bf16, KeepsEveryNumberOfItsOwn) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(value))) continue;
    ASSERT_EQ(to_bf16(to_float(value)).bits, bits);
  }
}

// 1 + 2^-7 is the next number after 1.
TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(rounded(1.0F + 0x1.FFFCp-9F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1.0002p-8F), 1.0F + 0x1p-7F);
  EXPECT_EQ(rounded(1.0F + 0x3p-8F), 1.0F + 0x1p-6F);
  EXPECT_EQ(rounded(-1.0F - 0x3p-8F), -1.0F - 0x1p-6F);
  EXPECT_EQ(rounded(0x1p-134F), 0.0F);  // half of the smallest subnormal
  EXPECT_EQ(rounded(0x1.8p-134F), 0x1p-133F);
  EXPECT_TRUE(std::signbit(rounded(-0x1p-140F)));
}

TEST(Bf16, TooLargeBecomesInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rounded(0x1.FEp127F), 0x1.FEp127F);
  EXPECT_EQ(rounded(0x1.FEFFFEp127F), 0x1.FEp127F);
  EXPECT_EQ(rounded(0x1.FFp127F), infinity);
  EXPECT_EQ(rounded(-0x1.FFFFFEp127F), -infinity);
  EXPECT_EQ(rounded(infinity), infinity);
  EXPECT_EQ(rounded(-infinity), -infinity);
}

TEST(Bf16, NanStaysQuietNan) {
  for (const std::uint32_t bits :
       {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    const Bf16 value = to_bf16(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(to_float(value))) << std::hex << bits;
    EXPECT_EQ(value.bits & 0x40U, 0x40U) << std::hex << bits;
    EXPECT_EQ(value.bits >> 15, bits >> 31) << std::hex << bits;
  }
}

TEST(Bf16, NamesItsType) {
  EXPECT_EQ(kDTypeOf<float>, DType::kF32);
  EXPECT_EQ(kDTypeOf<Bf16>, DType::kBF16);
  EXPECT_EQ(to_element<float>(1.1F), 1.1F);
  EXPECT_EQ(to_element<Bf16>(1.0F).bits, 0x3F80);
}

}  // namespace
}  // namespace fm::core
