// Limits for calls that know none.
#include "comm/wire/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

namespace fm::comm {
namespace {

using Clock = std::chrono::steady_clock;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Looks until `end`; the call that was late, or "".
std::string late_until(CallLimit& limit, Clock::time_point end) {
  while (Clock::now() < end) {
    sleep_ms(limit.left_ms());
    if (const char* const call = limit.late()) return call;
  }
  return "";
}

TEST(CallLimit, NamesTheCallThatDoesNotReturnAfterItsLimitAndNotBefore) {
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 200);
  EXPECT_EQ(mark->run("first", [] { return 7; }), 7);
  mark->run("second", [&] {
    const auto begin = Clock::now();
    EXPECT_EQ(late_until(limit, begin + std::chrono::seconds(20)), "second");
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
    return 0;
  });
}

TEST(CallLimit, ManyShortCallsAreNeverLate) {
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 100);
  std::string late;
  for (int i = 0; i < 400; ++i) {  // 400 ms at least, in calls of which none is long
    mark->run("short", [&] {
      sleep_ms(1);
      if (const char* const call = limit.late()) late = call;
      return 0;
    });
  }
  EXPECT_EQ(late, "");
}

TEST(CallLimit, TimeBetweenCallsIsNoCall) {
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 50);
  mark->run("short", [] { return 0; });
  EXPECT_EQ(late_until(limit, Clock::now() + std::chrono::milliseconds(200)), "");
}

// Nobody looked meanwhile, as in a suspended process: that is one look.
TEST(CallLimit, TimeInWhichNobodyCouldLookIsNoWaiting) {
  const auto mark = std::make_shared<CallMark>();
  CallLimit limit(mark, 50);
  mark->run("suspended", [&] {
    sleep_ms(10);
    EXPECT_EQ(limit.late(), nullptr);
    sleep_ms(500);
    EXPECT_EQ(limit.late(), nullptr);
    return 0;
  });
}

TEST(CallLimit, WithoutAMarkThereIsNothingToWaitFor) {
  CallLimit limit(nullptr, 1);
  sleep_ms(5);
  EXPECT_EQ(limit.left_ms(), -1);
  EXPECT_EQ(limit.late(), nullptr);
}

TEST(Watchdog, SpeaksOnceWhenTheLimitPasses) {
  std::promise<void> late;
  const Watchdog watchdog(Deadline(10), [&] { late.set_value(); });  // twice would throw
  EXPECT_EQ(late.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST(Watchdog, KeepsQuietWhenTheCallReturnsAndDoesNotHoldItUp) {
  bool late = false;
  const Deadline no_wait(5'000);
  {
    const Watchdog watchdog(Deadline(60'000), [&] { late = true; });
  }
  EXPECT_FALSE(late);
  EXPECT_FALSE(no_wait.passed());
}

}  // namespace

}  // namespace fm::comm
