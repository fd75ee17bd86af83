// What a queue of a CUDA device is to those who start kernels on it.
#pragma once

#include "core/types.h"

namespace fm::kernels::cuda {

// Work space that belongs to the queue: what is queued uses it one after the other.
struct Workspace {
  void* data = nullptr;  // 256-byte aligned
  core::Bytes bytes;
};

// A core::Queue that is one, too (stream_of in kernels/cuda/launch.h).
//
// Thread:   as core::Queue.
// Lifetime: as core::Queue.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void* handle() const = 0;  // a cudaStream_t
  virtual Workspace workspace() const = 0;
  virtual int multiprocessors() const = 0;
  // Throws MachineError (device) where the kernel before could not be started.
  virtual void check_start(const char* kernel) const = 0;
};

}  // namespace fm::kernels::cuda
