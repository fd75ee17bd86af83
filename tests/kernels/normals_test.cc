// Normal numbers against the libm of this machine.
#include "kernels/pointwise/normals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "core/philox.h"
#include "kernels/pointwise/box_muller.h"

namespace fm::kernels {
namespace {

double relative_error(double got, double wanted) { return std::abs((got - wanted) / wanted); }

// All 2^24 arguments but for a step of 3, which meets every exponent and both ends.
TEST(BoxMuller, TheLogarithmIsRightTo50Bits) {
  for (std::uint32_t k = 0; k < (1U << 24); k += 3) {
    const double wanted = std::log(double{core::uniform_of(k << 8)});
    const double got = log_of_uniform(k << 8);
    if (k + 1 == 1U << 24) {
      ASSERT_EQ(got, 0.0);
    } else {
      ASSERT_LT(relative_error(got, wanted), 0x1p-50) << k;
    }
  }
}

TEST(BoxMuller, CosineAndSineAreRightTo50BitsAwayFromTheAxes) {
  int at_axes = 0;
  for (std::uint32_t k = 0; k < (1U << 24); k += 3) {
    const double angle = 2.0 * std::numbers::pi * double{core::uniform_of(k << 8)};
    const CosSin got = cos_sin(angle);
    if (got.to_axis <= 1e-8) {
      ++at_axes;
      continue;
    }
    ASSERT_LT(relative_error(got.cos, std::cos(angle)), 0x1p-50) << k;
    ASSERT_LT(relative_error(got.sin, std::sin(angle)), 0x1p-50) << k;
  }
  // k + 1 is a quarter of 2^24, the half, three quarters, or all: 2^22 n - 1 = 3 j for n = 1, 4.
  EXPECT_EQ(at_axes, 2);
}

float by_libm(const NormalStream& stream, std::uint64_t block, std::size_t number) {
  const core::PhiloxBlock words = core::philox(stream.key, block);
  const std::size_t pair = number / 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(double{core::uniform_of(words[pair])}));
  const double angle = 2.0 * std::numbers::pi * double{core::uniform_of(words[pair + 1])};
  return static_cast<float>(radius * (number == pair ? std::cos(angle) : std::sin(angle)) *
                            stream.scale);
}

// Doubts are rare and counted; everything else has the bits of libm. Blocks from below 2^32 to
// beyond: the counter has two words.
TEST(Normals, EqualLibmBitForBitOrAreInDoubt) {
  constexpr std::int64_t kBlocks = 250'000;
  const std::uint64_t first = (std::uint64_t{1} << 32) - 100'000;
  std::vector<float> out(kNormalsPerBlock * kBlocks);
  for (const double scale : {0.02, 1.0, 1.0 / 3.0}) {
    const NormalStream stream{core::stream_key(3407, "lm_head.weight"), scale};
    std::int64_t doubts = 0;
    const std::int64_t told = normals(stream, first, kBlocks, out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (std::isnan(out[i])) {
        ++doubts;
      } else {
        ASSERT_EQ(out[i], by_libm(stream, first + i / 4, i % 4)) << i;
      }
    }
    EXPECT_LE(doubts, told);
    EXPECT_LE(told, 40);  // 2^-18 of a million: 4, give or take
  }
}

TEST(Normals, WhatIsNoOrdinaryFloatIsInDoubt) {
  for (const double scale : {0.0, 1e-40, 1e40, std::nan("")}) {
    std::vector<float> out(kNormalsPerBlock * 5, 7.0F);
    EXPECT_GE(normals({1, scale}, 0, 5, out.data()), 20);
    for (const float value : out) EXPECT_TRUE(std::isnan(value)) << scale;
  }
}

}  // namespace
}  // namespace fm::kernels
