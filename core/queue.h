// Where the work of a device waits for its turn: what is queued runs later, in order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "core/types.h"

namespace fm::core {

class MemorySource;

// The kernels of a device: kernels/variants/table.h has the list, which core does not know.
struct QueueKernels {};

// A moment of a queue: it has come when all that was queued before it is done.
//
// Thread:   any.
// Lifetime: outlives the queue's work before it, not the device.
class QueueEvent {
 public:
  virtual ~QueueEvent() = default;
  virtual bool has_come() const = 0;
  // Blocks the host until then. Throws what the work before it failed with.
  virtual void finish() = 0;
};
using EventPtr = std::shared_ptr<QueueEvent>;

// Every pointer of a kernel is memory of the queue's device, and so is what lies behind the
// pointers and spans of its arguments; the arguments themselves are copied when it is queued.
//
// Invariant: runs in the order of queueing; queues of one device have no order among each other but
//            by events.
// Thread:    one thread queues.
// Lifetime:  outlives the Work that points to it.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual const QueueKernels& kernels() const = 0;
  virtual MemorySource& memory() = 0;  // of its device

  // Between the host's memory and the device's. The host's is read or written in the queue's time:
  // it stays as it is until an event behind the copy has come.
  virtual void copy_in(const void* host, void* device, Bytes bytes) = 0;
  virtual void copy_out(const void* device, void* host, Bytes bytes) = 0;
  // Nobody reads these bytes of the device any more before they are written again. A device of
  // tests fills them with what no result survives.
  virtual void forget(void* device, Bytes bytes) = 0;

  // *ns becomes the time of core/trace.h's clock when all that was queued before is done. It is
  // the host's memory, as in a copy.
  virtual void tell_time(std::int64_t* ns) = 0;

  virtual EventPtr record() = 0;
  // What is queued from now on runs after the event, of any queue of the device.
  virtual void wait(EventPtr event) = 0;
  // Blocks the host until all that is queued is done.
  void finish() { record()->finish(); }

  // What somebody has made in the device's memory and uses again, for as long as the queue lives.
  // `owner` is his alone.
  std::shared_ptr<void>& kept_for(const std::shared_ptr<const void>& owner) { return kept_[owner]; }

 protected:
  // For who destroys the queue, before its memory.
  void drop_kept() { kept_.clear(); }

 private:
  std::map<std::shared_ptr<const void>, std::shared_ptr<void>> kept_;
};

}  // namespace fm::core
