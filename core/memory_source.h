// Where buffers get their bytes from when it is not the heap: memory that ranks of one host share.
#pragma once

#include <memory>

#include "core/types.h"

namespace fm::core {

// Equal parts behind each other, one of them somewhere else: `others` [parts - 1] and `own` become
// one range of addresses in which `own` is part `place`. Whole pages, of one source.
struct JoinedParts {
  void* others = nullptr;
  void* own = nullptr;
  Bytes part;
  int parts = 1;
  int place = 0;
};

// A second address of memory, for as long as it lives; not longer than the memory.
class JoinedMemory {
 public:
  virtual ~JoinedMemory() = default;
  virtual void* data() const = 0;
};

// Thread:   one thread per rank.
// Lifetime: outlives what it allocated.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // 64-byte aligned and zero-filled; null when the system refuses.
  virtual void* allocate(Bytes bytes) = 0;
  virtual void release(void* data, Bytes bytes) noexcept = 0;
  // Throws MachineError (out of memory) when the system refuses.
  virtual std::unique_ptr<JoinedMemory> join(const JoinedParts& parts) = 0;
};

}  // namespace fm::core
