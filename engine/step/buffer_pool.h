// Equal buffers that are lent and returned; their number is the plan's, so nothing is allocated
// during a step.
//
// Invariant: a buffer is lent to one borrower at a time.
// Thread:    the rank's thread.
// Lifetime:  the ledger outlives it.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/check.h"
#include "core/queue.h"

namespace fm::engine {

class BufferPool {
 public:
  struct Size {
    core::Bytes each;
    int count = 0;
  };
  // `queue`: of the device whose memory this is; null: of the host's.
  BufferPool(const core::RankMemory& memory, core::Account account, Size size, core::Queue* queue)
      : memory_(memory.ledger, account, size.each * size.count, memory.source),
        each_(size.each),
        queue_(queue) {
    for (int index = size.count - 1; index >= 0; --index) {
      free_.push_back(memory_.span().data() + (each_ * index).count());
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
  // Of a device's: when all that was queued before is done.
  void take_back(void* lent) {
    if (queue_ != nullptr) queue_->forget(lent, each_);
    free_.push_back(lent);
  }
  std::span<std::byte> memory() const { return memory_.span(); }
  // Buffers that were never lent.
  int unused() const { return static_cast<int>(fewest_free_); }

 private:
  core::Buffer memory_;
  core::Bytes each_;
  core::Queue* queue_;
  std::vector<void*> free_;
  std::size_t fewest_free_ = 0;
};

}  // namespace fm::engine
