// Equal buffers that are lent and returned; their number is the plan's, so nothing is allocated
// during a step.
//
// Invariant: a buffer is lent to one borrower at a time.
// Thread:    the rank's thread.
// Lifetime:  the ledger outlives it.
#pragma once

#include <algorithm>
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
    fewest_free_ = free_.size();
  }

  // Asking for more than the plan predicted is a defect.
  void* lend() {
    FM_CHECK(!free_.empty(), "a step needs more buffers than its plan predicted");
    void* const lent = free_.back();
    free_.pop_back();
    fewest_free_ = std::min(fewest_free_, free_.size());
    return lent;
  }
  void take_back(void* lent) { free_.push_back(lent); }
  // Buffers that were never lent.
  int unused() const { return static_cast<int>(fewest_free_); }

 private:
  core::Buffer memory_;
  std::vector<void*> free_;
  std::size_t fewest_free_ = 0;
};

}  // namespace fm::engine
