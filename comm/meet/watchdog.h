// A limit for a call of a library that has none.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/deadline.h"

namespace fm::comm {

// Invariant: on_late is called at most once, and never after the destructor has returned.
// Thread:    on_late runs on one of its own, with all signals blocked; usually it does not return.
// Lifetime:  the guarded call; what on_late refers to outlives it.
class Watchdog {
 public:
  Watchdog(const Deadline& deadline, std::function<void()> on_late);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run();

  Deadline deadline_;
  std::function<void()> on_late_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace fm::comm
