// What kernels build on registers of their own: compiled here as for the narrowest.
#include "kernels/vector.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/attention/pack.h"
#include "kernels/float_math.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels::FM_SIMD {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float exp2_of(float x) { return exp2(splat(x))[kVectorFloats - 1]; }

TEST(Exp2, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0.0;
  for (float x = -126.0F; x < 100.0F; x += 0.0013F) {
    const double exact = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp2_of(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 2.0 * 0x1p-23);
  for (const float whole : {-126.0F, -2.0F, 0.0F, 7.0F}) {
    EXPECT_EQ(exp2_of(whole), std::exp2(whole));
  }
}

TEST(Exp2, EndsInZeroAndNan) {
  EXPECT_EQ(exp2_of(-126.01F), 0.0F);
  EXPECT_EQ(exp2_of(-1e30F), 0.0F);
  EXPECT_EQ(exp2_of(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(exp2_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Log2, IsWithinOneTenMillionthOfItsSize) {
  double worst = 0.0;
  for (float x = 1e-30F; x < 1e30F; x *= 1.0007F) {
    const double exact = std::log2(static_cast<double>(x));
    const double gap = std::abs(static_cast<double>(log2_float(x)) - exact);
    worst = std::max(worst, gap / (1.0 + std::abs(exact)));
  }
  EXPECT_LT(worst, 1e-7);
  EXPECT_EQ(log2_float(1.0F), 0.0F);
  EXPECT_EQ(log2_float(1024.0F), 10.0F);
  EXPECT_TRUE(std::isnan(log2_float(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Tanh, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0.0;
  for (float x = 1e-30F; x < 30.0F; x *= 1.0003F) {
    const double exact = std::tanh(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(tanh_float(x)) - exact) / exact);
    EXPECT_EQ(tanh_float(-x), -tanh_float(x));
  }
  EXPECT_LT(worst, 2.0 * 0x1p-23);
  EXPECT_EQ(tanh_float(0.0F), 0.0F);
  EXPECT_EQ(tanh_float(100.0F), 1.0F);
  EXPECT_EQ(tanh_float(-kInfinity), -1.0F);
  EXPECT_TRUE(std::isnan(tanh_float(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Vector, LargestLaneIsFoundWhereverItStands) {
  for (int place = 0; place < kVectorFloats; ++place) {
    Vector value = splat(-3.0F);
    value[place] = -1.0F;
    const Vector largest = largest_lane(value);
    for (int lane = 0; lane < kVectorFloats; ++lane) EXPECT_EQ(largest[lane], -1.0F) << place;
  }
}

TEST(Pack, TransposesAndFillsWithZeros) {
  for (const std::int64_t count : {1, 4, 15, 19}) {
    for (const std::int64_t width : {1, 3, 8, 18}) {
      const Floats from = random_values(count * 40, 1);
      Floats to(32 * 48, NAN);
      pack_transposed({from.data(), 40, count, width}, {to.data(), 32, 48});
      for (std::int64_t i = 0; i < 32; ++i) {
        for (std::int64_t j = 0; j < 48; ++j) {
          const bool held = i < width && j < count;
          ASSERT_EQ(to[static_cast<std::size_t>(i * 48 + j)],
                    held ? from[static_cast<std::size_t>(j * 40 + i)] : 0.0F)
              << i << " " << j << " of " << count << " x " << width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fm::kernels::FM_SIMD
