// A point in time that a wait must not pass.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace fm::comm {

class Deadline {
 public:
  explicit Deadline(int limit_ms)
      : limit_ms_(limit_ms), end_(Clock::now() + std::chrono::milliseconds(limit_ms)) {}
  int limit_ms() const { return limit_ms_; }
  bool passed() const { return Clock::now() >= end_; }
  // Milliseconds left, at most `cap`, never negative: an argument for poll().
  int left_ms(int cap = 1'000'000'000) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, cap));
  }

 private:
  using Clock = std::chrono::steady_clock;
  int limit_ms_;
  Clock::time_point end_;
};

}  // namespace fm::comm
