// An operation that was posted and is waited for later.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/blackbox/black_box.h"
#include "core/queue.h"
#include "core/trace.h"
#include "core/work.h"

namespace fm::comm {

// One posted operation.
//
// Invariant: buffers of the operation belong to it until wait() or finish() returned, and in a
//            device's memory to the work that was queued before.
// Thread:    waited for by the thread that posted it.
// Lifetime:  must be waited for before it dies, unless an error is in flight; not longer than
//            its communicator.
class Pending {
 public:
  class Task {
   public:
    virtual ~Task() = default;
    virtual void wait() = 0;  // throws MachineError naming the peer when its limit passes
    // After wait(): from when on the buffers may be used. Null: from now on.
    virtual core::EventPtr landed() { return nullptr; }
    // wait(), and blocks the host until the buffers may be used.
    virtual void finish() {
      wait();
      if (const core::EventPtr event = landed()) event->finish();
    }
  };

  Pending() = default;  // already done
  explicit Pending(std::unique_ptr<Task> work) : work_(std::move(work)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&&) noexcept = default;

  bool done() const { return work_ == nullptr; }
  // What is queued from now on where `work` runs may use the buffers.
  void wait(const core::Work& work) {
    if (work.queue == nullptr) return finish();
    core::EventPtr event;
    end([&event](Task& task) {
      task.wait();
      event = task.landed();
    });
    if (event != nullptr) work.queue->wait(std::move(event));
  }
  // The host may use them, or they may be given back.
  void finish() {
    end([](Task& task) { task.finish(); });
  }
  // Makes the wait an event of the trace. `form` has static storage. The time of the wait is added
  // to `spent_ns`, which may be null.
  void show_as(const core::TraceForm& form, const core::TraceValues& values,
               std::int64_t* spent_ns) {
    form_ = &form;
    values_ = values;
    spent_ns_ = spent_ns;
  }
  // The wait is one for the verb of this number in the black box.
  void record_in(core::BlackBox& box, std::uint64_t verb) {
    box_ = &box;
    verb_ = verb;
  }

 private:
  template <class Wait>
  void end(const Wait& wait_for) {
    if (work_ == nullptr) return;
    const std::unique_ptr<Task> work = std::move(work_);
    if (box_ != nullptr) box_->waits(verb_);
    trace([&] { wait_for(*work); });
    if (box_ != nullptr) box_->done(verb_);
  }
  template <class Wait>
  void trace(const Wait& wait) {
    if (form_ == nullptr) return wait();
    const core::TraceScope scope(*form_, values_);
    const std::int64_t before = spent_ns_ == nullptr ? 0 : core::trace_now();
    wait();
    if (spent_ns_ != nullptr) *spent_ns_ += core::trace_now() - before;
  }

  std::unique_ptr<Task> work_;
  const core::TraceForm* form_ = nullptr;
  core::TraceValues values_{};
  std::int64_t* spent_ns_ = nullptr;
  core::BlackBox* box_ = nullptr;
  std::uint64_t verb_ = 0;
};

}  // namespace fm::comm
