#include "core/phases.h"

#include "core/queue.h"

namespace fm::core {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kLoss: return "loss";
    case Phase::kBackward: return "backward";
    case Phase::kGather: return "gather";
    case Phase::kReduce: return "reduce";
    case Phase::kPipe: return "pipe";
    case Phase::kOptimizer: return "optimizer";
    case Phase::kData: return "data";
    case Phase::kOther: return "other";
  }
  return "?";
}

PhaseClock::~PhaseClock() {
  if (marks_.empty()) return;
  try {
    queue_->finish();  // it writes into marks_
  } catch (...) {      // who waits for the work that failed is told
  }
}

void PhaseClock::begin_step() {
  times_ = {};
  if (queue_ == nullptr) return;
  mark(Phase::kOther);
  in_step_ = true;
}

void PhaseClock::end_step() {
  if (!in_step_) return;
  mark(std::nullopt);
  in_step_ = false;
}

void PhaseClock::read() {
  if (!in_step_) return;
  mark(marks_.back().phase);
  queue_->finish();
  for (; marks_.size() > 1; marks_.pop_front()) {
    const std::int64_t spent_ns = std::max<std::int64_t>(marks_[1].ns - marks_[0].ns, 0);
    if (marks_[0].phase) times_.add(*marks_[0].phase, 1e-6 * static_cast<double>(spent_ns));
  }
}

void PhaseClock::mark(std::optional<Phase> phase) {
  marks_.push_back({phase, 0});
  queue_->tell_time(&marks_.back().ns);
}

}  // namespace fm::core
