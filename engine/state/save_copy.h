// A copy of what a save writes, so that training goes on while it is written.
#pragma once

#include <map>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "core/buffer.h"

namespace fm::engine {

// Invariant: take() allocates nothing of the size of the state; its pages were touched before.
// Thread:    the rank's thread makes the copy; whoever has slices of it reads, until the next one.
// Lifetime:  outlives the slices that read it. Ledger and memory outlive it.
class SaveCopy {
 public:
  // Room for the numbers of these slices, and of those that take their places in later saves.
  // `page_locked`: the memory for what a device holds, which its link reaches at full rate; null:
  // the host holds it all.
  SaveCopy(core::Ledger& ledger, const std::vector<checkpoint::FileSlice>& slices,
           core::MemorySource* page_locked = nullptr);
  SaveCopy(const SaveCopy&) = delete;
  SaveCopy& operator=(const SaveCopy&) = delete;

  core::Bytes bytes() const { return room_.bytes(); }
  // Copies the numbers of the slices, which read the copy from here on; but those that stand still.
  void take(std::vector<checkpoint::FileSlice>& slices, int threads);

 private:
  core::HugePages pages_;
  core::Buffer room_;
};

}  // namespace fm::engine
