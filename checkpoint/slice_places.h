// Where the slices of this rank lie in planned files.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_files.h"

namespace fm::checkpoint {

struct SlicePlace {
  std::size_t file = 0;  // index into the list of files
  core::Bytes begin;     // of the slice, from the start of the file
  const core::TensorSlice* slice = nullptr;
};

// Empty slices are left out. A slice of a tensor that is not planned, of another shape or beyond
// its end is a defect of the caller. `slices` must outlive the answer.
std::vector<SlicePlace> place_slices(const std::vector<FileSpec>& files,
                                     const std::vector<SafetensorsPlan>& plans,
                                     std::span<const FileSlice> slices);

}  // namespace fm::checkpoint
