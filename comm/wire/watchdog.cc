#include "comm/wire/watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fm::comm {
namespace {

constexpr int kLooks = 10;

int pause_ms(int limit_ms) { return std::max(1, (limit_ms + kLooks - 1) / kLooks); }

}  // namespace

CallLimit::CallLimit(std::shared_ptr<const CallMark> mark, int limit_ms, const Clock& clock)
    : mark_(std::move(mark)), limit_ms_(limit_ms), next_look_(pause_ms(limit_ms), clock) {}

const char* CallLimit::late() {
  if (mark_ == nullptr || !next_look_.passed()) return nullptr;
  next_look_ = next_look_.from_now(pause_ms(limit_ms_));
  const std::uint64_t count = mark_->count();
  const bool same_call = count % 2 == 1 && count == std::exchange(seen_, count);
  looks_alike_ = same_call ? looks_alike_ + 1 : 0;
  return looks_alike_ < kLooks ? nullptr : mark_->name();
}

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
