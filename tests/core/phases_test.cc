// Phases of a step.
#include "core/phases.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

namespace fm::core {
namespace {

TEST(Phases, ARangeAddsItsTimeToItsPhase) {
  PhaseClock clock;
  {
    const TraceRange outer(clock, Phase::kBackward);
    const TraceRange inner(clock, Phase::kGather);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  const PhaseTimes& times = clock.times();
  EXPECT_GE(times.ms(Phase::kGather), 3.0);
  EXPECT_GE(times.ms(Phase::kBackward), times.ms(Phase::kGather));  // not subtracted
  EXPECT_EQ(times.ms(Phase::kForward), 0.0);
  clock.begin_step();
  EXPECT_EQ(times.ms(Phase::kGather), 0.0);
}

TEST(Phases, TimesAddUp) {
  PhaseTimes times;
  times.add(Phase::kPipe, 1.5);
  times.add(Phase::kPipe, 2.0);
  EXPECT_EQ(times.ms(Phase::kPipe), 3.5);
}

TEST(Phases, WhatNoPhaseTookIsOther) {
  PhaseTimes times;
  times.add(Phase::kForward, 3.0);
  times.add(Phase::kPipe, 1.5);
  times.fill(5.0);
  EXPECT_EQ(times.ms(Phase::kOther), 0.5);
  times = {};
  times.add(Phase::kForward, 3.0);
  times.fill(2.0);  // of two clocks one may be behind
  EXPECT_EQ(times.ms(Phase::kOther), 0.0);
}

TEST(Phases, EveryPhaseHasItsOwnName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kPhaseCount; ++i) names.insert(name_of(static_cast<Phase>(i)));
  EXPECT_EQ(names.size(), kPhaseCount);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace fm::core
