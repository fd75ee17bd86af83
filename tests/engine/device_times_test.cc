// The engine on queues of a device that are early or late: no bit changes; where one wait is
// forgotten, the run differs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "core/check.h"
#include "device/fake/fake_device.h"
#include "device/fake/queue_runner.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using device::EarlyOrLate;
using device::FakeDevice;
using When = EarlyOrLate::When;
using Name = FakeDevice::Name;

enum class Forgets : std::uint8_t {
  kNothing,
  kComputeForIn,    // what arrives is read before it is there
  kInForCompute,    // what is read is overwritten
  kOutForCompute,   // what leaves is not made yet
  kHostForOut,      // what has left is not there yet
  kHostForCompute,  // a number is read before it is written
  kUpdateForDown,   // a gradient is used before it came down
  kUpForUpdate,     // parameters go up before they are updated
  kDownForPlace     // a gradient comes down over one that is still used
};

// Waits are left out, as one defect of the engine would.
class ForgetfulQueue : public device::FakeQueue {
 public:
  struct Without {
    bool waits = false;   // of this queue, for another
    bool finish = false;  // of the host, for this queue
  };
  ForgetfulQueue(const device::TwoViews& views, core::MemorySource& memory, When when,
                 Without without)
      : FakeQueue(views, memory, std::make_unique<EarlyOrLate>(when)), without_(without) {}

  void wait(core::EventPtr event) override {
    if (!without_.waits) FakeQueue::wait(std::move(event));
  }
  core::EventPtr record() override {
    class Unfinished : public device::FakeEvent {
     public:
      using FakeEvent::FakeEvent;
      void finish() override {}
    };
    if (!without_.finish) return FakeQueue::record();
    return put(std::make_shared<Unfinished>(runner()));
  }

 private:
  Without without_;
};

struct Times {
  When compute = When::kLate;
  When in = When::kLate;
  When out = When::kLate;
  // Of updates on the host (zero/host_updates.h).
  When down = When::kEarly;
  When host = When::kEarly;
  When up = When::kEarly;
};

MakeDevice devices(const Times& times, Forgets forgets = Forgets::kNothing) {
  return [=](int) {
    return std::make_unique<FakeDevice>(
        [&](Name name, const device::TwoViews& views, core::MemorySource& memory) {
          const std::array whens = {times.compute, times.in,   times.out,
                                    times.down,    times.host, times.up};
          const std::array<ForgetfulQueue::Without, 6> without = {{
              {forgets == Forgets::kComputeForIn, forgets == Forgets::kHostForCompute},
              {forgets == Forgets::kInForCompute, false},
              {forgets == Forgets::kOutForCompute, forgets == Forgets::kHostForOut},
              {forgets == Forgets::kDownForPlace, false},
              {forgets == Forgets::kUpdateForDown, false},
              {forgets == Forgets::kUpForUpdate, false},
          }};
          const auto at = static_cast<std::size_t>(name);
          return std::make_unique<ForgetfulQueue>(views, memory, whens[at], without[at]);
        });
  };
}

enum class Way : std::uint8_t { kGathers, kPipe, kHostTier };

TrainOptions options_of(Way way) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_device_times", true);
  options.sum_order = core::SumOrder::kCanonical;
  options.shared_memory = false;
  options.pipe_parallel_size = way == Way::kHostTier ? 1 : 2;
  options.zero_stage = way == Way::kGathers ? 3 : 0;
  options.schedule = &schedule_named(way == Way::kPipe ? "gpipe" : "1f1b");
  if (way != Way::kHostTier) return options;
  options.offload.optimizer = core::Tier::kHost;
  options.offload.optimizer_buffers = 2;
  return options;
}

enum class Outcome : std::uint8_t { kSame, kDiffers };

// In a process of its own: what is forgotten may also write where nothing is any more.
Outcome outcome_of(Way way, const Times& times, Forgets forgets) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    TrainOptions options = options_of(way);
    const RunTrace expected = run_small(options, 2, 3);
    options.device.kind = DeviceKind::kFake;
    try {
      const RunTrace run = run_small_on(devices(times, forgets), options, 2, 3);
      _exit(first_difference(expected, run).empty() ? 0 : 1);
    } catch (const core::Error&) {
      _exit(1);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) << "it hung";
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Outcome::kSame : Outcome::kDiffers;
}

constexpr Times kInIsLate = {When::kEarly, When::kLate, When::kEarly};
constexpr Times kComputeIsLate = {When::kLate, When::kEarly, When::kEarly};
constexpr Times kOutIsLate = {When::kEarly, When::kEarly, When::kLate};

TEST(DeviceTimes, EarlyOrLateTheBitsAreThoseOfThisCpu) {
  for (const Way way : {Way::kGathers, Way::kPipe}) {
    for (const When compute : {When::kEarly, When::kLate}) {
      for (const When in : {When::kEarly, When::kLate}) {
        for (const When out : {When::kEarly, When::kLate}) {
          EXPECT_EQ(outcome_of(way, {compute, in, out}, Forgets::kNothing), Outcome::kSame)
              << static_cast<int>(compute) << static_cast<int>(in) << static_cast<int>(out);
        }
      }
    }
  }
}

TEST(DeviceTimes, WhatArrivesIsNotReadBefore) {
  EXPECT_EQ(outcome_of(Way::kGathers, kInIsLate, Forgets::kComputeForIn), Outcome::kDiffers);
}

TEST(DeviceTimes, WhatIsReadIsNotOverwrittenBefore) {
  EXPECT_EQ(outcome_of(Way::kPipe, kComputeIsLate, Forgets::kInForCompute), Outcome::kDiffers);
}

TEST(DeviceTimes, WhatLeavesIsMadeBefore) {
  EXPECT_EQ(outcome_of(Way::kGathers, kComputeIsLate, Forgets::kOutForCompute), Outcome::kDiffers);
}

TEST(DeviceTimes, WhatHasLeftIsNotSentBefore) {
  EXPECT_EQ(outcome_of(Way::kGathers, kOutIsLate, Forgets::kHostForOut), Outcome::kDiffers);
}

TEST(DeviceTimes, ANumberIsNotReadBeforeItIsWritten) {
  EXPECT_EQ(outcome_of(Way::kPipe, kComputeIsLate, Forgets::kHostForCompute), Outcome::kDiffers);
}

// Updates on the host, beside a device.

constexpr When kEarly = When::kEarly;
constexpr When kLate = When::kLate;

TEST(DeviceTimes, UpdatesOnTheHostHaveTheSameBitsEarlyOrLate) {
  for (const When compute : {kEarly, kLate}) {
    for (const When down : {kEarly, kLate}) {
      for (const When host : {kEarly, kLate}) {
        for (const When up : {kEarly, kLate}) {
          const Times times{compute, kEarly, kEarly, down, host, up};
          EXPECT_EQ(outcome_of(Way::kHostTier, times, Forgets::kNothing), Outcome::kSame)
              << static_cast<int>(compute) << static_cast<int>(down) << static_cast<int>(host)
              << static_cast<int>(up);
        }
      }
    }
  }
}

TEST(DeviceTimes, AGradientIsUsedWhenItCameDown) {
  const Times times{kEarly, kEarly, kEarly, kLate, kEarly, kEarly};
  EXPECT_EQ(outcome_of(Way::kHostTier, times, Forgets::kUpdateForDown), Outcome::kDiffers);
}

TEST(DeviceTimes, ParametersGoUpWhenTheyAreUpdated) {
  const Times times{kEarly, kEarly, kEarly, kEarly, kLate, kEarly};
  EXPECT_EQ(outcome_of(Way::kHostTier, times, Forgets::kUpForUpdate), Outcome::kDiffers);
}

TEST(DeviceTimes, ParametersAreReadWhenTheyCameUp) {
  const Times times{kEarly, kEarly, kEarly, kEarly, kEarly, kLate};
  EXPECT_EQ(outcome_of(Way::kHostTier, times, Forgets::kComputeForIn), Outcome::kDiffers);
}

TEST(DeviceTimes, AGradientComesDownWhereNoneIsUsed) {
  const Times times{kEarly, kEarly, kEarly, kEarly, kLate, kLate};
  EXPECT_EQ(outcome_of(Way::kHostTier, times, Forgets::kDownForPlace), Outcome::kDiffers);
}

}  // namespace
}  // namespace fm::engine
