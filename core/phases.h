// Where a step spends its time: sums per phase.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace fm::core {

enum class Phase : std::uint8_t {
  kForward,
  kLoss,
  kBackward,
  kGather,
  kReduce,
  kPipe,
  kOptimizer,
  kData,
  kOther,
};
inline constexpr std::size_t kPhaseCount = 9;
std::string_view name_of(Phase phase);

class PhaseTimes {
 public:
  void add(Phase phase, double ms) { ms_[static_cast<std::size_t>(phase)] += ms; }
  double ms(Phase phase) const { return ms_[static_cast<std::size_t>(phase)]; }
  // What no phase took of `whole_ms` is kOther.
  void fill(double whole_ms) {
    const double known = std::accumulate(ms_.begin(), ms_.end(), 0.0);
    add(Phase::kOther, std::max(whole_ms - known, 0.0));
  }

 private:
  std::array<double, kPhaseCount> ms_{};
};

// Named time ranges. Cheap enough to stay on: two clock reads.
//
// Invariant: ranges of one thread nest; time of an inner range is not subtracted from the outer.
// Thread:    one PhaseClock per rank thread.
// Lifetime:  the clock outlives its ranges.
class PhaseClock {
 public:
  const PhaseTimes& times() const { return times_; }
  void begin_step() { times_ = {}; }

 private:
  friend class TraceRange;
  PhaseTimes times_;
};

class TraceRange {
 public:
  TraceRange(PhaseClock& clock, Phase phase)
      : clock_(clock), phase_(phase), start_(std::chrono::steady_clock::now()) {}
  ~TraceRange() {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start_;
    clock_.times_.add(phase_, spent.count());
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  PhaseClock& clock_;
  Phase phase_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace fm::core
