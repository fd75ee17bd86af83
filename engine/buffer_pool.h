// Equal buffers that are lent and returned; their number is the plan's, so nothing is allocated
// during a step.
//
// Invariant: a buffer is lent to one borrower at a time.
// Thread:    the rank's thread.
// Lifetime:  the ledger outlives it.
#pragma once

#include <vector>

#include "core/buffer.h"
#include "core/check.h"

namespace fm::engine {

class BufferPool {
 public:
  BufferPool(core::Ledger& ledger, core::Account account, core::Bytes each, int count,
             core::MemorySource* source = nullptr)
      : memory_(ledger, account, each * count, source) {
    for (int index = count - 1; index >= 0; --index) {
      free_.push_back(memory_.span().data() + (each * index).count());
    }
  }

  // Asking for more than the plan predicted is a defect.
  void* lend() {
    FM_CHECK(!free_.empty(), "a step needs more buffers than its plan predicted");
    void* const lent = free_.back();
    free_.pop_back();
    return lent;
  }
  void take_back(void* lent) { free_.push_back(lent); }

 private:
  core::Buffer memory_;
  std::vector<void*> free_;
};

}  // namespace fm::engine
