// This CPU's own work in the time of a device's queues.
#pragma once

#include <functional>

#include "core/queue.h"

namespace fm::core {

// Functions that run in the order in which they were given, in a thread of the device's; they use
// no device.
//
// Thread:   one thread gives.
// Lifetime: ends when what was given is done; the device outlives it.
class HostCalls {
 public:
  virtual ~HostCalls() = default;
  // What it throws is thrown to who waits for what comes behind it.
  virtual void call(std::function<void()> task) = 0;
  // As of a queue: what is given from now on runs after the event, of any queue of the device.
  virtual void wait(EventPtr event) = 0;
  virtual EventPtr record() = 0;
  void finish() { record()->finish(); }
};

}  // namespace fm::core
