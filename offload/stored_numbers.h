// Numbers that sleep in a store, as files, weights folders and exports see them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/tensor_slice.h"
#include "offload/slice_store.h"

namespace fm::offload {

// Numbers from `at` on, a multiple of kPage. Each part that is fetched is a copy of its own; those
// that are written must not have a page in common. The store outlives it.
std::shared_ptr<core::TensorSource> numbers_in(SliceStore& store, core::Bytes at,
                                               core::DType element);

// Memory for a part of numbers that sleep: who reads them has no more of them at once.
//
// Thread:   one at a time.
// Lifetime: the ledger outlives it; it outlives the sources that read into it.
class PartRoom {
 public:
  PartRoom(core::Ledger& ledger, core::Bytes bytes);
  // Of numbers in arrays of at most so many bytes, in the parts of in_parts().
  static core::Bytes bytes_for(core::Bytes largest);

  std::span<std::byte> take(core::Bytes bytes);
  void give_back() { taken_ = false; }

 private:
  core::Buffer memory_;
  bool taken_ = false;
};

// fp32 numbers from `at` on, as they were when they were held. They are read, and not written.
std::shared_ptr<core::TensorSource> held_numbers(std::unique_ptr<HeldBytes> held, core::Bytes at,
                                                 PartRoom& room);

// The same slices in parts of at most 16 MiB of fp32, as long as the ranges of a checkpoint: who
// goes through them one by one has no more in memory.
std::vector<core::TensorSlice> in_parts(const std::vector<core::TensorSlice>& slices);

}  // namespace fm::offload
