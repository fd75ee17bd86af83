#include "core/trace.h"

#include "core/queue.h"

namespace fm::core {

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
