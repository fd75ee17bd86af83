#include "comm/meet/watchdog.h"

#include <chrono>
#include <utility>

#include "comm/wire/quiet_thread.h"

namespace fm::comm {

Watchdog::Watchdog(const Deadline& deadline, std::function<void()> on_late)
    : deadline_(deadline), on_late_(std::move(on_late)) {
  thread_ = start_quiet_thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_one();
  thread_.join();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::milliseconds(deadline_.left_ms());
  if (!ended_changed_.wait_for(lock, limit, [this] { return ended_; })) on_late_();
}

}  // namespace fm::comm
