// Where a step spends its time: sums per phase.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <string_view>

namespace fm::core {

class Queue;

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
// On this CPU a range takes the time of its thread; those of one thread nest, and the time of an
// inner one is not subtracted from the outer. On a device, whose queue comes to the work later, a
// phase lasts there from where its range begins to where another begins: these places are marked
// while a step is made, and read where the host waits for the queue anyway. What is queued behind
// that counts in the next step, during which it runs.
//
// Invariant: what is queued between end_step() and begin_step() counts in no step of a device.
// Thread:    one PhaseClock per rank thread.
// Lifetime:  outlives its ranges; the queue outlives it. Its end waits for the queue.
class PhaseClock {
 public:
  // `queue`: what the ranges' work is put into; null: this CPU does it at once.
  explicit PhaseClock(Queue* queue = nullptr) : queue_(queue) {}
  ~PhaseClock();
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

  const PhaseTimes& times() const { return times_; }
  void begin_step();
  void end_step();
  // The queue is empty, or nearly so: adds up what it has done.
  void read();

 private:
  friend class TraceRange;
  struct Mark {
    std::optional<Phase> phase;  // from here on; absent: none that counts
    std::int64_t ns = 0;         // of trace_now(), when the queue has come here
  };
  void begin(Phase phase) {
    if (in_step_ && marks_.back().phase != phase) mark(phase);
  }
  void end(Phase phase, double ms) {
    if (queue_ == nullptr) times_.add(phase, ms);
  }
  void mark(std::optional<Phase> phase);

  PhaseTimes times_;
  Queue* const queue_;
  bool in_step_ = false;    // of a device
  std::deque<Mark> marks_;  // they stay where they are until the queue has come there
};

class TraceRange {
 public:
  TraceRange(PhaseClock& clock, Phase phase)
      : clock_(clock), phase_(phase), start_(std::chrono::steady_clock::now()) {
    clock.begin(phase);
  }
  ~TraceRange() {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start_;
    clock_.end(phase_, spent.count());
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  PhaseClock& clock_;
  Phase phase_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace fm::core
