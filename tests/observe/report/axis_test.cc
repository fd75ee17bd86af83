#include "observe/report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "observe/report/numbers.h"

namespace fm::report {
namespace {

std::string ticks_of(const Axis& axis) {
  std::string out;
  for (const Tick& tick : axis.ticks) out += (out.empty() ? "" : " ") + tick.text;
  return out;
}

std::string linear(double least, double most, int wanted = 5) {
  return ticks_of(make_axis(AxisKind::kLinear, least, most, wanted));
}

TEST(Axis, StepsAreOneTwoOrFive) {
  EXPECT_EQ(linear(0, 10), "0 2 4 6 8 10");
  EXPECT_EQ(linear(1.7, 8.3), "2 4 6 8");
  EXPECT_EQ(linear(0, 1), "0 0.2 0.4 0.6 0.8 1.0");
  EXPECT_EQ(linear(2.31, 2.36), "2.31 2.32 2.33 2.34 2.35 2.36");
  EXPECT_EQ(linear(-3, 7), "-2 0 2 4 6");
}

TEST(Axis, LongNumbersAreShort) {
  EXPECT_EQ(linear(0, 200'000), "0 50k 100k 150k 200k");
  EXPECT_EQ(linear(0, 2'000'000), "0 500k 1M 1.5M 2M");
  EXPECT_EQ(linear(0, 12000, 4), "0 5k 10k");
  EXPECT_EQ(linear(0, 8000), "0 2000 4000 6000 8000");
  EXPECT_EQ(linear(0, 2e-4, 4), "0 5e-5 1e-4 1.5e-4 2e-4");
  EXPECT_EQ(linear(0, 0.002, 4), "0 0.0005 0.0010 0.0015 0.0020");
}

TEST(Axis, StepsOfARunAreWhole) {
  EXPECT_EQ(ticks_of(make_axis(AxisKind::kWhole, 1, 3, 12)), "1 2 3");
  EXPECT_EQ(ticks_of(make_axis(AxisKind::kWhole, 7, 7, 12)), "7");
  EXPECT_EQ(ticks_of(make_axis(AxisKind::kWhole, 0, 60, 6)), "0 10 20 30 40 50 60");
}

TEST(Axis, LogTicksArePowers) {
  EXPECT_EQ(ticks_of(make_axis(AxisKind::kLog, 0.3, 60, 5)), "0.5 1 2 5 10 20 50");
  EXPECT_EQ(ticks_of(make_axis(AxisKind::kLog, 1e-5, 1e7, 6)), "1e-4 0.01 1 100 10k 1M");
  EXPECT_EQ(ticks_of(make_axis(AxisKind::kLog, 65536, 16777216, 5)), "100k 200k 500k 1M 2M 5M 10M");
}

TEST(Axis, PlacesAreLinearOrInDecades) {
  EXPECT_DOUBLE_EQ(make_axis(AxisKind::kLinear, 10, 20, 5).place(12.5), 0.25);
  EXPECT_DOUBLE_EQ(make_axis(AxisKind::kLog, 1, 100, 5).place(10), 0.5);
}

TEST(Axis, RoomKeepsZeroAsAnEnd) {
  EXPECT_EQ(roomy_axis(AxisKind::kLinear, 0, 10, 5).least, 0);
  EXPECT_GT(roomy_axis(AxisKind::kLinear, 0, 10, 5).most, 10);
  EXPECT_LT(roomy_axis(AxisKind::kLinear, -1, 10, 5).least, -1);
}

TEST(Axis, LogIsForPositiveValuesThatSpanMuch) {
  EXPECT_EQ(kind_for(std::vector<double>{1, 29}, 30), AxisKind::kLinear);
  EXPECT_EQ(kind_for(std::vector<double>{1, 31}, 30), AxisKind::kLog);
  EXPECT_EQ(kind_for(std::vector<double>{0, 31}, 30), AxisKind::kLinear);
  EXPECT_EQ(kind_for({}, 30), AxisKind::kLinear);
}

// Whatever numbers a damaged file holds: at least one tick, few, finite, in order.
TEST(Axis, AnyTwoNumbersMakeAnAxis) {
  std::mt19937_64 random(11);
  const auto any = [&] {
    const double sign = random() % 2 == 0 ? 1 : -1;
    const double size = std::pow(10, static_cast<double>(random() % 617) - 308);
    return random() % 20 == 0 ? 0.0 : sign * size * (1 + static_cast<double>(random() % 9));
  };
  for (int round = 0; round < 20'000; ++round) {
    double least = any();
    double most = random() % 4 == 0 ? least : any();
    if (most < least) std::swap(least, most);
    const AxisKind kind = least > 0 && random() % 2 == 0 ? AxisKind::kLog : AxisKind::kLinear;
    for (const Axis& axis : {make_axis(kind, least, most, 5), roomy_axis(kind, least, most, 5)}) {
      ASSERT_LE(axis.ticks.size(), 30U) << least << " " << most;
      ASSERT_LT(axis.least, axis.most);
      ASSERT_TRUE(std::isfinite(axis.place(axis.least))) << least << " " << most;
      for (const Tick& tick : axis.ticks) {
        ASSERT_TRUE(std::isfinite(tick.value));
        ASSERT_LE(tick.text.size(), 24U) << tick.text;
      }
    }
  }
}

TEST(Numbers, AreAsPeopleReadThem) {
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-123456), "-123,456");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(NAN), "\u2013");
  EXPECT_EQ(plain(8123.4), "8,123");
  EXPECT_EQ(plain(0.0123462), "0.01235");
  EXPECT_EQ(duration(0.0123), "12.3 ms");
  EXPECT_EQ(duration(59.96), "1 min 0 s");
  EXPECT_EQ(duration(61), "1 min 1 s");
  EXPECT_EQ(duration(3600 * 3 + 12 * 60), "3 h 12 min");
  EXPECT_EQ(duration(3600 * 50), "2 d 2 h");
  EXPECT_EQ(date(1'700'000'000), "2023-11-14 22:13:20 UTC");
  EXPECT_EQ(date(1e300), "\u2013");
  EXPECT_EQ(bytes(158'400'000), "158.4 MB");
}

TEST(Axis, PlacesWhatIsAtTheEndsOfTheRange) {
  const Axis log = roomy_axis(AxisKind::kLog, 1, 1e308, 6);
  EXPECT_NEAR(log.place(1), 0.06, 0.02);  // kRoom of 300 decades on both sides, cut at 1e300 above
  EXPECT_GE(log.place(1e308), 1);
  EXPECT_TRUE(std::isfinite(log.place(1e308)));
  const Axis all = roomy_axis(AxisKind::kLog, 5e-324, 1.7e308, 6);
  EXPECT_NEAR(all.place(1), 0.5, 1e-9);  // from 1e-300 to 1e300
  EXPECT_FALSE(all.ticks.empty());
}

}  // namespace
}  // namespace fm::report
