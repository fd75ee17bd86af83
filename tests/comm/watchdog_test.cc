// Limits for calls that know none.
#include "comm/wire/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "tests/comm/clock.h"

namespace fm::comm {
namespace {

// A tenth of the limit at a time; the call that was late at one of so many looks, or "".
std::string late_in(CallLimit& limit, ManualClock& clock, int looks) {
  for (int look = 0; look < looks; ++look) {
    clock.advance(limit.left_ms());
    if (const char* const call = limit.late()) return call;
  }
  return "";
}

// The first look only sees the call; ten later ones make the limit.
TEST(CallLimit, NamesTheCallThatDoesNotReturnAfterItsLimitAndNotBefore) {
  ManualClock clock;
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 200, clock);
  EXPECT_EQ(limit.left_ms(), 20);
  EXPECT_EQ(mark->run("first", [] { return 7; }), 7);
  mark->run("second", [&] {
    EXPECT_EQ(late_in(limit, clock, 10), "");
    EXPECT_EQ(limit.late(), nullptr) << "a look that is not due";
    EXPECT_EQ(late_in(limit, clock, 1), "second");
    return 0;
  });
}

TEST(CallLimit, ManyShortCallsAreNeverLate) {
  ManualClock clock;
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 100, clock);
  for (int i = 0; i < 400; ++i) {
    mark->run("short", [&] {
      EXPECT_EQ(late_in(limit, clock, 9), "");
      return 0;
    });
  }
}

TEST(CallLimit, TimeBetweenCallsIsNoCall) {
  ManualClock clock;
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 50, clock);
  mark->run("short", [] { return 0; });
  EXPECT_EQ(late_in(limit, clock, 100), "");
}

// Nobody looked meanwhile, as in a suspended process: that is one look.
TEST(CallLimit, TimeInWhichNobodyCouldLookIsNoWaiting) {
  ManualClock clock;
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 50, clock);
  mark->run("suspended", [&] {
    EXPECT_EQ(late_in(limit, clock, 2), "");
    clock.advance(500);
    EXPECT_EQ(limit.late(), nullptr);
    EXPECT_EQ(late_in(limit, clock, 7), "");
    EXPECT_EQ(late_in(limit, clock, 1), "suspended");
    return 0;
  });
}

TEST(CallLimit, WithoutAMarkThereIsNothingToWaitFor) {
  ManualClock clock;
  CallLimit limit(nullptr, 1, clock);
  clock.advance(5);
  EXPECT_EQ(limit.left_ms(), -1);
  EXPECT_EQ(limit.late(), nullptr);
}

TEST(Watchdog, SpeaksOnceWhenTheLimitPasses) {
  std::promise<void> late;
  const Watchdog watchdog(Deadline(10), [&] { late.set_value(); });  // twice would throw
  EXPECT_EQ(late.get_future().wait_for(std::chrono::milliseconds(kWatchdogMs)),
            std::future_status::ready);
}

TEST(Watchdog, KeepsQuietWhenTheCallReturnsAndDoesNotHoldItUp) {
  bool late = false;
  {
    const Watchdog watchdog(Deadline(kWatchdogMs), [&] { late = true; });
  }  // waiting for the limit would make it late
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace fm::comm
