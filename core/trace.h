// Where a step spends its time: events for --trace. Sums per phase are in core/phases.h.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fm::core {

class Queue;

// What a rank did and when: events with a begin and an end, kept in memory that was there before
// the first one. Whoever wants a range in the trace puts a TraceScope on its stack; while nobody
// records, that is one branch. engine/shown/step_trace.h writes the file.
enum class TraceKind : std::uint8_t { kStep, kInstruction, kPart, kCollective, kKernel };
inline constexpr std::size_t kTraceValues = 4;

// What all events of a place in the source have in common; lives as long as the program. The
// writer adds a rate where an argument is called "flops" or "bytes".
struct TraceForm {
  const char* name;
  TraceKind kind;
  std::array<const char*, kTraceValues> arguments{};  // null: no further one
};

using TraceValues = std::array<std::int64_t, kTraceValues>;
inline constexpr std::int64_t kNoValue = -1;  // left out by the writer

struct TraceEvent {
  const TraceForm* form = nullptr;
  std::int64_t begin_ns = 0;  // of trace_now()
  std::int64_t end_ns = 0;
  TraceValues values{};
  bool on_queue = false;  // of a device, which sets both times when it comes there
};

// The steady clock: one and the same for all processes of a host.
inline std::int64_t trace_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Invariant: events stand in order of their begin, an outer one before those inside; those of a
//            queue where they were queued. Kernels do not
//            nest: a kernel that is part of another one is no event of its own. When the memory is
//            full, no later event is kept, and how many is known.
// Thread:    records what its own thread does; see Recording.
// Lifetime:  outlives the Recording and the scopes that were opened under it.
class TraceRecorder {
 public:
  explicit TraceRecorder(std::size_t capacity) : events_(capacity) {}

  // The recorder of this thread, null while nothing is recorded.
  static TraceRecorder* current() { return current_; }

  // Null when the event is not kept; end() takes that too.
  TraceEvent* begin(const TraceForm& form, const TraceValues& values);
  void end(TraceEvent* event);
  // The same of a kernel that is queued: the times are there when the queue has run it.
  TraceEvent* begin(Queue& queue, const TraceForm& form, const TraceValues& values);
  void end(Queue& queue, TraceEvent* event);

  std::span<const TraceEvent> events() const { return std::span(events_).first(count_); }
  std::int64_t dropped() const { return dropped_; }

 private:
  friend class Recording;
  static inline constinit thread_local TraceRecorder* current_ = nullptr;

  std::vector<TraceEvent> events_;
  std::size_t count_ = 0;
  std::int64_t dropped_ = 0;
  bool in_kernel_ = false;
};

// While it lives, its thread records into `recorder`; null: into none.
class Recording {
 public:
  explicit Recording(TraceRecorder* recorder)
      : before_(std::exchange(TraceRecorder::current_, recorder)) {}
  ~Recording() { TraceRecorder::current_ = before_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  TraceRecorder* before_;
};

// One event, from construction to destruction. `form` has static storage.
class TraceScope {
 public:
  explicit TraceScope(const TraceForm& form, const TraceValues& values = {})
      : recorder_(TraceRecorder::current()) {
    if (recorder_ != nullptr) [[unlikely]]
      event_ = recorder_->begin(form, values);
  }
  // Where `queue` runs it; null: here and now.
  TraceScope(Queue* queue, const TraceForm& form, const TraceValues& values)
      : recorder_(TraceRecorder::current()), queue_(queue) {
    if (recorder_ != nullptr) [[unlikely]]
      event_ = queue == nullptr ? recorder_->begin(form, values)
                                : recorder_->begin(*queue, form, values);
  }
  ~TraceScope() {
    if (event_ != nullptr) [[unlikely]]
      queue_ == nullptr ? recorder_->end(event_) : recorder_->end(*queue_, event_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceRecorder* recorder_;
  Queue* queue_ = nullptr;
  TraceEvent* event_ = nullptr;
};

}  // namespace fm::core
