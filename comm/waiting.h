// The parts of a wait: a clock, a limit, and a bell that ends it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace fm::comm {

// The clock that limits are measured by: the system's, or one that a test moves by hand. A wait
// sleeps for short system times and reads this clock in between.
class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  constexpr Clock() = default;
  virtual ~Clock() = default;
  virtual Time now() const { return std::chrono::steady_clock::now(); }
};
inline const Clock kSystemClock;

// A point in time that a wait must not pass.
//
// Lifetime: the clock outlives it.
class Deadline {
 public:
  explicit Deadline(int limit_ms, const Clock& clock = kSystemClock)
      : clock_(&clock),
        limit_ms_(limit_ms),
        end_(clock.now() + std::chrono::milliseconds(limit_ms)) {}
  int limit_ms() const { return limit_ms_; }
  bool passed() const { return clock_->now() >= end_; }
  // Milliseconds left, at most `cap`, never negative: an argument for poll().
  int left_ms(int cap = 1'000'000'000) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - clock_->now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, cap));
  }
  // A new deadline by the same clock.
  Deadline from_now(int limit_ms) const { return Deadline(limit_ms, *clock_); }

 private:
  const Clock* clock_;
  int limit_ms_;
  Clock::Time end_;
};

// Wakes a rank that sleeps while it waits for peers in shared memory.
//
// listen() announces that this rank is about to sleep: from then on every change by a peer rings.
// The rank must check for earlier changes once more between listen() and sleep(), so no ring is
// missed.
//
// Thread:   the rank's thread.
// Lifetime: the shared memory that it lies in outlives it.
class Bell {
 public:
  virtual ~Bell() = default;
  virtual void listen() = 0;
  virtual void sleep(int limit_ms) = 0;  // until rung since listen(), or the limit
  virtual void stop_listening() = 0;
  virtual bool may_spin() const = 0;  // every rank of the host has a core to itself
};

}  // namespace fm::comm
