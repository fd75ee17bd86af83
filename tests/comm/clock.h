// Time in tests: a clock that stands still until the test moves it, and how long to wait for what
// comes soon.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "comm/waiting.h"

namespace fm::comm {

// Ends what hangs: a hundred times what is usual, so that no load of the machine comes near it.
inline constexpr int kWatchdogMs = 60'000;

// Thread: any.
class ManualClock final : public Clock {
 public:
  Time now() const override {
    const std::lock_guard lock(mutex_);
    ++looks_;
    looked_.notify_all();
    return now_;
  }
  void advance(int ms) {
    const std::lock_guard lock(mutex_);
    now_ += std::chrono::milliseconds(ms);
  }
  // Until it was looked at so many times from now on: a wait that goes on has seen the time. False
  // when nobody looks any more.
  bool await_looks(int count) const {
    std::unique_lock lock(mutex_);
    return looked_.wait_for(lock, std::chrono::milliseconds(kWatchdogMs),
                            [this, until = looks_ + count] { return looks_ >= until; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable looked_;
  mutable int looks_ = 0;
  Time now_{std::chrono::hours(1)};
};

}  // namespace fm::comm
