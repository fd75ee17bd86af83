// Phases of a step.
#include "core/phases.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/queue.h"

namespace fm::core {
namespace {

// Comes to what is queued when somebody waits for it, and tells the times of its own clock.
class LateQueue : public Queue {
 public:
  void run(std::int64_t ms) { now_ns_ += ms * 1'000'000; }
  std::size_t marks() const { return told_.size(); }

  const QueueKernels& kernels() const override { return kernels_; }
  MemorySource& memory() override { return heap(); }
  void copy_in(const void*, void*, Bytes) override {}
  void copy_out(const void*, void*, Bytes) override {}
  void forget(void*, Bytes) override {}
  void tell_time(std::int64_t* ns) override { told_.emplace_back(ns, now_ns_); }
  EventPtr record() override {
    class Event : public QueueEvent {
     public:
      explicit Event(LateQueue& queue) : queue_(queue) {}
      bool has_come() const override { return false; }
      void finish() override { queue_.tell(); }

     private:
      LateQueue& queue_;
    };
    return std::make_shared<Event>(*this);
  }
  void wait(EventPtr) override {}

 private:
  void tell() {
    for (const auto& [ns, time] : std::exchange(told_, {})) *ns = time;
  }

  QueueKernels kernels_;
  std::int64_t now_ns_ = 1'000'000'000;
  std::vector<std::pair<std::int64_t*, std::int64_t>> told_;
};

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

// A step on a device: the host is ahead of the queue until it waits for the norm.
class DevicePhases : public testing::Test {
 protected:
  void put(Phase phase, std::int64_t ms) {
    const TraceRange range(clock_, phase);
    queue_.run(ms);
  }
  double ms(Phase phase) const { return clock_.times().ms(phase); }

  LateQueue queue_;
  PhaseClock clock_{&queue_};
};

TEST_F(DevicePhases, AreThoseOfTheQueue) {
  clock_.begin_step();
  put(Phase::kForward, 30);
  put(Phase::kBackward, 60);
  put(Phase::kForward, 1);
  put(Phase::kReduce, 4);
  EXPECT_EQ(ms(Phase::kForward), 0.0) << "the queue has not come there";
  clock_.read();
  EXPECT_EQ(ms(Phase::kForward), 31.0);
  EXPECT_EQ(ms(Phase::kBackward), 60.0);
  EXPECT_EQ(ms(Phase::kReduce), 4.0);
}

TEST_F(DevicePhases, WhatRunsBehindTheWaitCountsInTheNextStepAndWhatLiesBetweenInNone) {
  clock_.begin_step();
  put(Phase::kForward, 30);
  clock_.read();
  put(Phase::kOptimizer, 5);
  clock_.end_step();
  EXPECT_EQ(ms(Phase::kOptimizer), 0.0);
  put(Phase::kLoss, 1000);  // an evaluation
  clock_.begin_step();
  EXPECT_EQ(ms(Phase::kForward), 0.0);
  queue_.run(2);  // of no range
  put(Phase::kForward, 40);
  clock_.read();
  EXPECT_EQ(ms(Phase::kOptimizer), 5.0);
  EXPECT_EQ(ms(Phase::kForward), 40.0);
  EXPECT_EQ(ms(Phase::kOther), 2.0);
  EXPECT_EQ(ms(Phase::kLoss), 0.0);
}

TEST_F(DevicePhases, MarkWhereOneBeginsThatIsNotThere) {
  put(Phase::kForward, 1);
  clock_.read();
  EXPECT_EQ(queue_.marks(), 0U) << "no step has begun";
  clock_.begin_step();
  for (int unit = 0; unit < 5; ++unit) put(Phase::kForward, 1);
  for (int unit = 0; unit < 5; ++unit) put(Phase::kBackward, 2);
  EXPECT_EQ(queue_.marks(), 3U);
}

TEST(Phases, EveryPhaseHasItsOwnName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kPhaseCount; ++i) names.insert(name_of(static_cast<Phase>(i)));
  EXPECT_EQ(names.size(), kPhaseCount);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace fm::core
