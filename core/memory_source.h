// Where buffers get their bytes from when it is not the heap: memory that ranks of one host share.
#pragma once

#include "core/types.h"

namespace fm::core {

// Thread:   one thread per rank.
// Lifetime: outlives what it allocated.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // 64-byte aligned and zero-filled; null when the system refuses.
  virtual void* allocate(Bytes bytes) = 0;
  virtual void release(void* data, Bytes bytes) noexcept = 0;
};

}  // namespace fm::core
