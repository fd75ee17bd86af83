// Limits for library calls that have none: for many short calls, and for a single call.
#pragma once

#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/waiting.h"

namespace fm::comm {

// Marks the call that a thread is in. A mark is three plain stores, cheap enough for calls of 100
// ns.
//
// Invariant: the count is odd while a call runs; calls do not nest.
// Thread:    run() belongs to one thread at a time, the rest to any.
// Lifetime:  shared by the thread that calls and the one that watches.
class CallMark {
 public:
  // `name` lives as long as the program.
  template <class Call>
  int run(const char* name, const Call& call) {
    name_.store(name, std::memory_order_relaxed);
    advance();
    const int result = call();
    advance();
    return result;
  }

  std::uint64_t count() const { return count_.load(std::memory_order_acquire); }
  const char* name() const { return name_.load(std::memory_order_relaxed); }

 private:
  void advance() {
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<const char*> name_ = nullptr;
};

// Checks a mark ten times within the limit. It counts checks, not time, because the time in which
// a process was suspended must not count.
//
// Thread:    any one.
class CallLimit {
 public:
  // Without a mark no call is ever late.
  CallLimit(std::shared_ptr<const CallMark> mark, int limit_ms, const Clock& clock = kSystemClock);

  // Milliseconds until the next check is due, for poll(): -1 where there is no mark.
  int left_ms() const { return mark_ == nullptr ? -1 : next_look_.left_ms(); }
  // Checks if a check is due; returns the call that has exceeded the limit, else null.
  const char* late();
  int limit_ms() const { return limit_ms_; }

 private:
  std::shared_ptr<const CallMark> mark_;
  int limit_ms_;
  Deadline next_look_;
  std::uint64_t seen_ = 0;
  int looks_alike_ = 0;
};

// A limit for one call.
//
// Invariant: on_late is called at most once, and never after the destructor has returned.
// Thread:    on_late runs on a thread of its own with all signals blocked; usually it does not
//            return.
// Lifetime:  that of the guarded call; everything that on_late refers to outlives it.
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

// Starts `body` on a thread with all signals blocked: only the main thread handles signals.
template <class Body>
std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace fm::comm
