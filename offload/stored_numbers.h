// Numbers that sleep in a store, as files, weights folders and exports see them.
#pragma once

#include <memory>
#include <vector>

#include "core/tensor_slice.h"
#include "offload/slice_store.h"

namespace fm::offload {

// Numbers from `at` on, a multiple of kPage. Each part that is fetched is a copy of its own; those
// that are written must not have a page in common. The store outlives it.
std::shared_ptr<core::TensorSource> numbers_in(SliceStore& store, core::Bytes at,
                                               core::DType element);

// The same slices in parts of at most 16 MiB of fp32, as long as the ranges of a checkpoint: who
// goes through them one by one has no more in memory.
std::vector<core::TensorSlice> in_parts(const std::vector<core::TensorSlice>& slices);

}  // namespace fm::offload
