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

// A controller that is reset takes half a minute, and --timeout_s is what limits it.
TEST(StepPace, AWaitForADriveIsNoStandingStill) {
  StepPace pace;
  StepPace::Clock::time_point now{};
  pace.begin(now);
  pace.end(now += std::chrono::milliseconds(500));
  pace.begin(now);
  pace.begin_wait();
  EXPECT_EQ(pace.limit_ms(kStopMs), 0);
  pace.begin_wait();
  pace.end_wait(1'000);
  EXPECT_EQ(pace.limit_ms(kStopMs), 0) << "another thread waits";
  pace.end_wait(29'000);
  EXPECT_EQ(pace.limit_ms(kStopMs), kStopMs + 30'000) << "the watch has not seen it move yet";
  pace.end(now += std::chrono::milliseconds(500));
  pace.begin(now);
  EXPECT_EQ(pace.limit_ms(kStopMs), kStopMs);
}

}  // namespace
}  // namespace fm::core
