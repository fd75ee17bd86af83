// A device that computes beside the CPU: its memory and its queues.
#pragma once

#include <memory>
#include <string>

#include "core/buffer.h"
#include "core/host_calls.h"
#include "core/queue.h"

namespace fm::core {

// Thread:   one thread per rank.
// Lifetime: outlives its memory and all Work with its queues.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // for banner and messages, e.g. "fake device"
  // Zero-filled in the time of compute(). The host may not touch it.
  virtual MemorySource& memory() = 0;
  // What the process has taken of it since the device was opened, by the device's own count. Where
  // other processes use the device, theirs counts, too.
  virtual Bytes memory_taken() const = 0;
  // Kernels; host to device; device to host.
  virtual Queue& compute() = 0;
  virtual Queue& in() = 0;
  virtual Queue& out() = 0;
  // One more queue, without an order of its own. It dies before the device.
  virtual std::shared_ptr<Queue> new_queue() = 0;
  virtual std::unique_ptr<HostCalls> new_host_calls() = 0;
  // The host's memory that copies reach at the link's full rate (page-locked), and slow to make.
  virtual MemorySource& host_memory() = 0;
};

}  // namespace fm::core
