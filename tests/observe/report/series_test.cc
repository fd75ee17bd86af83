#include "observe/report/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace fm::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// span 3: each weight is half of the one after it. 1; (1/2 + 2)/(3/2); (1/4 + 1 + 4)/(7/4).
TEST(Smoothed, IsTheWeightedMean) {
  const std::vector<double> got = smoothed(std::vector<double>{1, 2, 4}, 3);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_DOUBLE_EQ(got[0], 1.0);
  EXPECT_DOUBLE_EQ(got[1], 5.0 / 3);
  EXPECT_DOUBLE_EQ(got[2], 3.0);
}

TEST(Smoothed, GoesOnBehindWhatIsNotFinite) {
  const std::vector<double> got = smoothed(std::vector<double>{1, kNone, HUGE_VAL, 2, 4}, 3);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_DOUBLE_EQ(got[3], 5.0 / 3);
  EXPECT_DOUBLE_EQ(got[4], 3.0);
}

// Spans 1, 5/4, 3/2, 7/4, 2 keep 0, 1/9, 1/5, 3/11, 1/3 of what was before.
TEST(Smoothed, FromTheStartFollowsWhatFallsThere) {
  const std::vector<double> got = smoothed_from_start(std::vector<double>{9, 3, 1, 1, 1}, 10);
  ASSERT_EQ(got.size(), 5U);
  EXPECT_DOUBLE_EQ(got[0], 9.0);
  EXPECT_DOUBLE_EQ(got[1], (9.0 / 9 + 3) / (1.0 / 9 + 1));
  EXPECT_DOUBLE_EQ(got[2], (4.0 / 5 + 1) / (10.0 / 9 / 5 + 1));
  std::vector<double> flat(200, 2.0);
  for (const double value : smoothed_from_start(flat, 10)) EXPECT_DOUBLE_EQ(value, 2.0);
}

// The mean of a line is behind it by (span - 1) / 2 places, and no more than an eighth at first.
TEST(Smoothed, FromTheStartIsBehindByAnEighthAtMost) {
  std::vector<double> falling;
  for (int at = 0; at < 300; ++at) falling.push_back(1000.0 - at);
  const std::vector<double> got = smoothed_from_start(falling, 20);
  for (std::size_t at = 0; at < got.size(); ++at) {
    EXPECT_LE(got[at] - falling[at], static_cast<double>(at) / 8 + 1e-9) << at;
    EXPECT_LE(got[at] - falling[at], 9.5 + 1e-9) << at;
  }
}

TEST(Median, IsTheMiddleOrTheMeanOfTwo) {
  EXPECT_EQ(median(std::vector<double>{5, kNone, 1, 3}), 3);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_TRUE(std::isnan(median(std::vector<double>{kNone})));
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Thinned, KeepsFewPointsAsTheyAre) {
  const std::vector<double> x = {1, 2, 3, 7};
  const std::vector<double> y = {5, kNone, 4, 9};
  EXPECT_EQ(thinned(x, y, 100), (std::vector<Point>{{1, 5}, {3, 4}, {7, 9}}));
}

TEST(Thinned, KeepsExtremesOfEveryPartInOrder) {
  constexpr int kParts = 37;
  constexpr std::size_t kCount = 100'003;
  std::mt19937 random(7);
  std::vector<double> x;
  std::vector<double> y;
  for (std::size_t i = 0; i < kCount; ++i) {
    x.push_back(static_cast<double>(i));
    y.push_back(static_cast<double>(random() % 1'000'000));
  }
  y[51'234] = 1e9;
  y[777] = -1e9;
  const std::vector<Point> got = thinned(x, y, kParts);
  EXPECT_LE(got.size(), 4U * (kParts + 1));
  EXPECT_GE(got.size(), 2U * kParts);
  const double width = static_cast<double>(kCount - 1) / kParts;
  const auto extremes = [&](const auto& points, std::size_t count, auto value_at) {
    std::vector<std::pair<double, double>> found(kParts + 1, {HUGE_VAL, -HUGE_VAL});
    for (std::size_t i = 0; i < count; ++i) {
      const Point point = value_at(points, i);
      auto& part = found[static_cast<std::size_t>(point.x / width)];
      part.first = std::min(part.first, point.y);
      part.second = std::max(part.second, point.y);
    }
    return found;
  };
  const auto all = extremes(x, kCount, [&](const auto&, std::size_t i) {
    return Point{x[i], y[i]};
  });
  const auto kept =
      extremes(got, got.size(), [](const auto& points, std::size_t i) { return points[i]; });
  EXPECT_EQ(all, kept);
  for (std::size_t i = 1; i < got.size(); ++i) EXPECT_LT(got[i - 1].x, got[i].x);
  EXPECT_EQ(got.front(), (Point{x.front(), y.front()}));
  EXPECT_EQ(got.back(), (Point{x.back(), y.back()}));
}

TEST(Thinned, TakesOnePointAndNone) {
  EXPECT_EQ(thinned(std::vector<double>{3}, std::vector<double>{4}, 9),
            (std::vector<Point>{{3, 4}}));
  EXPECT_TRUE(thinned({}, {}, 9).empty());
}

TEST(Series, MeansOfTheLargestNumbersAreFinite) {
  const std::vector<double> large(40, 1.7e308);
  for (const double mean : smoothed(large, 10)) EXPECT_DOUBLE_EQ(mean, 1.7e308);
  EXPECT_EQ(median(large), 1.7e308);
}

}  // namespace
}  // namespace fm::report
