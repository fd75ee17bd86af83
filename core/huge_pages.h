// Memory for what is read from end to end, over and over.
#pragma once

#include "core/buffer.h"

namespace fm::core {

// Of this process alone, in pages of 2 MiB where the system has some (transparent huge pages,
// Linux' "madvise"): a processor looks up fewer addresses.
//
// Thread:   any.
// Lifetime: outlives what it allocated.
class HugePages : public MemorySource {
 public:
  void* allocate(Bytes bytes) override;
  void release(void* data, Bytes bytes) noexcept override;
  // It has one address: throws InternalError.
  std::unique_ptr<JoinedMemory> join(const JoinedParts& parts) override;
};

}  // namespace fm::core
