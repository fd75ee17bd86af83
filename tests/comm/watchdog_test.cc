#include "comm/wire/watchdog.h"

#include <gtest/gtest.h>

#include <future>

namespace fm::comm {
namespace {

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
