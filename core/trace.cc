#include "core/trace.h"

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

TraceEvent* TraceRecorder::begin(const TraceForm& form, const TraceValues& values) {
  const bool kernel = form.kind == TraceKind::kKernel;
  if (kernel && in_kernel_) return nullptr;
  if (count_ == events_.size()) {
    ++dropped_;
    return nullptr;
  }
  if (kernel) in_kernel_ = true;
  TraceEvent& event = events_[count_++];
  event = {&form, trace_now(), 0, values};
  return &event;
}

TraceEvent* TraceRecorder::begin(Queue& queue, const TraceForm& form, const TraceValues& values) {
  TraceEvent* const event = begin(form, values);
  if (event == nullptr) return nullptr;
  event->on_queue = true;
  queue.tell_time(&event->begin_ns);
  return event;
}

void TraceRecorder::end(Queue& queue, TraceEvent* event) {
  queue.tell_time(&event->end_ns);
  in_kernel_ = false;
}

void TraceRecorder::end(TraceEvent* event) {
  if (event == nullptr) return;
  event->end_ns = trace_now();
  if (event->form->kind == TraceKind::kKernel) in_kernel_ = false;
}

}  // namespace fm::core
