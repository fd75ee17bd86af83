// An event that comes when the test says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/check.h"
#include "core/queue.h"

namespace fm::device {

// Thread: any.
class Gate : public core::QueueEvent {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  bool has_come() const override {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  // Ends what hangs: no load of the machine comes near a minute.
  void finish() override {
    std::unique_lock lock(mutex_);
    const bool open = changed_.wait_for(lock, std::chrono::minutes(1), [this] { return open_; });
    FM_CHECK(open, "nobody has opened the gate");
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace fm::device
