#include "core/trace_recorder.h"

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

void TraceRecorder::end(TraceEvent* event) {
  if (event == nullptr) return;
  event->end_ns = trace_now();
  if (event->form->kind == TraceKind::kKernel) in_kernel_ = false;
}

}  // namespace fm::core
