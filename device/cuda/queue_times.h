// When queues of a card come to a place, on the host's clock (core/trace.h: trace_now).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace fm::device::cuda {

// A place in a stream, which the card puts a time on when it comes there.
//
// Thread:   any.
// Lifetime: as its clock.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual bool has_come() const = 0;
  virtual void finish() const = 0;  // blocks the host until then
  // Both have come.
  virtual double milliseconds_since(const Moment& earlier) const = 0;
};
class MomentClock {
 public:
  virtual ~MomentClock() = default;
  // Behind all that the stream (a cudaStream_t) has queued by now.
  virtual std::unique_ptr<Moment> mark(void* stream) = 0;
};

// The times of all queues of a card. The card's clock is set by the host's at the first of them,
// for which the host waits once, and goes on from one that is known when that is ten seconds old.
//
// Invariant: a time that has come is written by settle(), which whoever waited for an event behind
//            it calls. What it is written to stays until then.
// Thread:    one tells; any settles.
// Lifetime:  as the clock's.
class QueueTimes {
 public:
  explicit QueueTimes(MomentClock& clock) : clock_(clock) {}

  void tell(void* stream, std::int64_t* ns);
  void settle();

 private:
  struct Awaited {
    std::unique_ptr<Moment> moment;
    std::int64_t* ns;
  };
  void settle(std::deque<Awaited>& of_stream);

  MomentClock& clock_;
  std::mutex mutex_;
  std::map<void*, std::deque<Awaited>> asked_;  // by stream, in its order
  std::unique_ptr<Moment> known_;               // null: nothing has been asked
  std::int64_t known_ns_ = 0;
};

}  // namespace fm::device::cuda
