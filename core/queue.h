// Where the work of a device waits for its turn: what is queued runs later, in order.
#pragma once

namespace fm::core {

// The kernels of a device: kernels/variants/table.h has the list, which core does not know.
struct QueueKernels {};

// Thread:   one thread queues.
// Lifetime: outlives the Work that points to it.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual const QueueKernels& kernels() const = 0;
};

}  // namespace fm::core
