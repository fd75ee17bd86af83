#include "device/fake/fake_queue.h"

#include <cstring>

#include "core/trace.h"
#include "device/fake/fake_kernels.h"

namespace fm::device {
namespace {

std::size_t size_of(core::Bytes bytes) { return static_cast<std::size_t>(bytes.count()); }

}  // namespace

void FakeEvent::come() {
  {
    const std::lock_guard lock(mutex_);
    has_come_ = true;
    failure_ = runner_.failure();
  }
  changed_.notify_all();
}

bool FakeEvent::has_come() const {
  const std::lock_guard lock(mutex_);
  return has_come_;
}

void FakeEvent::finish() { reach(); }

void FakeEvent::reach() {
  // No further: what is queued behind it may wait for who waits here.
  while (!has_come() && runner_.hurry()) {
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_come_; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

const core::QueueKernels& FakeQueue::kernels() const { return fake_kernels(); }

void FakeQueue::copy_in(const void* host, void* device, core::Bytes bytes) {
  if (bytes.count() == 0) return;
  push([host, to = views_.seen_by_kernels(device), bytes] {
    std::memcpy(to, host, size_of(bytes));
  });
}

void FakeQueue::copy_out(const void* device, void* host, core::Bytes bytes) {
  if (bytes.count() == 0) return;
  push([from = views_.seen_by_kernels(device), host, bytes] {
    std::memcpy(host, from, size_of(bytes));
  });
}

void FakeQueue::forget(void* device, core::Bytes bytes) {
  if (bytes.count() == 0) return;
  push([to = views_.seen_by_kernels(device), bytes] { std::memset(to, kPoison, size_of(bytes)); });
}

void FakeQueue::tell_time(std::int64_t* ns) {
  push([ns] { *ns = core::trace_now(); });
}

core::EventPtr FakeQueue::put(std::shared_ptr<FakeEvent> event) {
  push([event] { event->come(); });
  return event;
}

core::EventPtr FakeQueue::record() { return put(std::make_shared<FakeEvent>(*runner_)); }

void FakeQueue::wait(core::EventPtr event) {
  push([event = std::move(event)] {
    if (auto* const fake = dynamic_cast<FakeEvent*>(event.get())) return fake->reach();
    event->finish();
  });
}

}  // namespace fm::device
