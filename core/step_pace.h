// How long the main thread of a rank may stand still now: the watch asks, the trainer knows.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace fm::core {

// Steps have a limit as soon as one has ended: ten times their median duration, at least the limit
// of the run. The first step, and whatever lies between steps (loading, saves, evaluations), has
// none: only the waits of the other ranks end, by their own limit. Nor has a wait for
// a drive, and what it took is added to the limit of its step. A step here is narrower than
// RunPhase::kStep of the black box, which also covers loading its rows and concluding the last one.
//
// Thread:   begin() and end() belong to the main thread, the rest to any.
// Lifetime: outlives the watch.
class StepPace {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(Clock::time_point now = Clock::now()) {
    began_ = now;
    waited_before_ms_.store(waited_ms_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    in_step_.store(true, std::memory_order_relaxed);
  }
  void end(Clock::time_point now = Clock::now()) {
    in_step_.store(false, std::memory_order_relaxed);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_).count();
    last_ms_[steps_ % last_ms_.size()] = static_cast<int>(std::clamp<long long>(spent, 1, kMostMs));
    ++steps_;
    auto sorted = last_ms_;
    const std::size_t count = std::min(steps_, sorted.size());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
    median_ms_.store(*middle, std::memory_order_relaxed);
  }

  // A wait for a drive, which has a limit of its own (--timeout_s), by any thread; and how long it
  // took.
  void begin_wait() { waits_.fetch_add(1, std::memory_order_relaxed); }
  void end_wait(std::int64_t spent_ms) {
    waited_ms_.fetch_add(spent_ms, std::memory_order_relaxed);
    waits_.fetch_sub(1, std::memory_order_release);
  }

  // 0: there is no limit now. `least_ms` 0: never.
  int limit_ms(int least_ms) const {
    const int median = median_ms_.load(std::memory_order_relaxed);
    if (least_ms == 0 || median == 0 || !in_step_.load(std::memory_order_relaxed)) return 0;
    if (waits_.load(std::memory_order_acquire) > 0) return 0;
    const std::int64_t waited = waited_ms_.load(std::memory_order_relaxed) -
                                waited_before_ms_.load(std::memory_order_relaxed);
    return static_cast<int>(
        std::min<std::int64_t>(std::max(least_ms, kTimes * median) + waited, 10 * kMostMs));
  }

 private:
  static constexpr int kTimes = 10;
  static constexpr int kMostMs = 100'000'000;

  Clock::time_point began_{};
  std::size_t steps_ = 0;
  std::array<int, 15> last_ms_{};
  std::atomic<bool> in_step_{false};
  std::atomic<int> waits_{0};  // for drives, now
  std::atomic<std::int64_t> waited_ms_{0};
  std::atomic<std::int64_t> waited_before_ms_{0};  // this step
  std::atomic<int> median_ms_{0};
};

// A step, from construction to destruction. `pace` may be null.
class PacedStep {
 public:
  explicit PacedStep(StepPace* pace) : pace_(pace) {
    if (pace_ != nullptr) pace_->begin();
  }
  ~PacedStep() {
    if (pace_ != nullptr) pace_->end();
  }
  PacedStep(const PacedStep&) = delete;
  PacedStep& operator=(const PacedStep&) = delete;

 private:
  StepPace* pace_;
};

}  // namespace fm::core
