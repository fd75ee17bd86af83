// A queue of the fake device.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "core/queue.h"
#include "device/fake/queue_runner.h"
#include "device/fake/two_views.h"

namespace fm::device {

// Thread:   any, but where the runner has one.
// Lifetime: as core::QueueEvent.
class FakeEvent : public core::QueueEvent {
 public:
  explicit FakeEvent(QueueRunner& runner) : runner_(runner) {}

  void come();
  bool has_come() const override;
  void finish() override;
  // What a queue does that waits for it.
  void reach();

 private:
  QueueRunner& runner_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
  std::exception_ptr failure_;
};

// Thread:   as core::Queue.
// Lifetime: views and memory outlive it.
class FakeQueue : public core::Queue {
 public:
  FakeQueue(const TwoViews& views, core::MemorySource& memory, std::unique_ptr<QueueRunner> runner)
      : views_(views), memory_(memory), runner_(std::move(runner)) {}

  const core::QueueKernels& kernels() const override;
  core::MemorySource& memory() override { return memory_; }
  using core::Queue::drop_kept;
  void copy_in(const void* host, void* device, core::Bytes bytes) override;
  void copy_out(const void* device, void* host, core::Bytes bytes) override;
  void forget(void* device, core::Bytes bytes) override;
  void tell_time(std::int64_t* ns) override;
  core::EventPtr record() override;
  void wait(core::EventPtr event) override;

  const TwoViews& views() const { return views_; }
  void push(QueueRunner::Task task) { runner_->push(std::move(task)); }

 protected:
  // The event comes behind all that is queued.
  core::EventPtr put(std::shared_ptr<FakeEvent> event);
  QueueRunner& runner() { return *runner_; }

 private:
  const TwoViews& views_;
  core::MemorySource& memory_;
  std::unique_ptr<QueueRunner> runner_;
};

}  // namespace fm::device
