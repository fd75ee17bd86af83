// A limit for the many short calls of a library that has none. See comm/meet/watchdog.h for a
// single one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/deadline.h"

namespace fm::comm {

// Which call a thread is in. A mark is three plain stores: calls of 100 ns can afford it.
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

// Looks at a mark ten times within the limit. It counts looks, not time: a process that was
// suspended has not waited.
//
// Thread:    any one.
class CallLimit {
 public:
  // Without a mark nothing is ever late.
  CallLimit(std::shared_ptr<const CallMark> mark, int limit_ms);

  // Until the next look is due, for poll(): -1 where there is no mark.
  int left_ms() const { return mark_ == nullptr ? -1 : next_look_.left_ms(); }
  // Looks when it is due: the call that has run since before the limit, else null.
  const char* late();
  int limit_ms() const { return limit_ms_; }

 private:
  std::shared_ptr<const CallMark> mark_;
  int limit_ms_;
  Deadline next_look_;
  std::uint64_t seen_ = 0;
  int looks_alike_ = 0;
};

}  // namespace fm::comm
