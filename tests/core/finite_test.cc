#include "core/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace fm::core {
namespace {

using Limits = std::numeric_limits<float>;

TEST(Finite, InfinitiesAndEveryNanAreNot) {
  for (const float value : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                            -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
    EXPECT_TRUE(is_not_finite(value)) << value;
  }
  for (const float value :
       {0.0F, -0.0F, Limits::denorm_min(), Limits::min(), 1.0F, Limits::max(), Limits::lowest()}) {
    EXPECT_FALSE(is_not_finite(value)) << value;
  }
}

TEST(Finite, TheFirstOneIsFoundWhereverItLies) {
  std::vector<float> values(10'000, Limits::max());
  EXPECT_FALSE(first_non_finite(values));
  EXPECT_FALSE(first_non_finite({}));
  for (const std::size_t at : {9'999U, 8'192U, 4'096U, 4'095U, 0U}) {  // each before the last one
    values[at] = Limits::infinity();
    EXPECT_EQ(first_non_finite(values), at);
  }
}

}  // namespace
}  // namespace fm::core
