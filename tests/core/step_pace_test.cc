// How long the main thread may stand still now.
#include "core/step_pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace fm::core {
namespace {

constexpr int kStopMs = 10'000;

TEST(StepPace, LimitsStepsByTheMedianOfThoseBefore) {
  StepPace pace;
  StepPace::Clock::time_point now{};
  const auto step = [&](int ms) {
    pace.begin(now);
    now += std::chrono::milliseconds(ms);
    pace.end(now);
  };
  pace.begin(now);
  EXPECT_EQ(pace.limit_ms(kStopMs), 0) << "the first step";
  pace.end(now += std::chrono::seconds(60));
  EXPECT_EQ(pace.limit_ms(kStopMs), 0) << "between two steps";
  for (const int ms : {500, 700, 600, 90'000, 650}) step(ms);
  pace.begin(now);
  EXPECT_EQ(pace.limit_ms(kStopMs), kStopMs) << "10 * 0.7 s is less";
  EXPECT_EQ(pace.limit_ms(1'000), 7'000) << "of 500, 600, 650, 700, 60,000, 90,000";
  EXPECT_EQ(pace.limit_ms(0), 0) << "--hang_s 0";
}

}  // namespace
}  // namespace fm::core
