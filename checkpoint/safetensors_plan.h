// Files of safetensors to be written: their heads, and where each slice goes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors_parse.h"
#include "checkpoint/tensor_files.h"

namespace fm::checkpoint {

// What the bytes before the data must be, and where each tensor goes: the reference writer's
// layout (alignment of the type descending, then name; header padded with spaces to 8 bytes).
struct SafetensorsPlan {
  std::string head;  // length and header
  std::vector<StoredTensor> tensors;
  core::Bytes file_bytes;
};
struct TensorToStore {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};
SafetensorsPlan plan_safetensors(const std::vector<TensorToStore>& tensors,
                                 const std::map<std::string, std::string>& metadata);
// All of one type, metadata {"format": "pt"}: what transformers accepts.
SafetensorsPlan plan_floats(const std::vector<TensorSpec>& tensors, core::DType dtype);
inline SafetensorsPlan plan_f32(const std::vector<TensorSpec>& tensors) {
  return plan_floats(tensors, core::DType::kF32);
}

// Writes whole fp32 tensors to one file, by one process: temporary name, fsync, rename.
void write_safetensors(const std::string& path, std::span<const core::TensorSlice> tensors);

// Where a row of a slice of this rank lies in planned files.
struct SlicePlace {
  std::size_t file = 0;  // index into the list of files
  core::Bytes begin;     // of the row, from the start of the file
  const core::TensorSlice* slice = nullptr;
  std::int64_t row = 0;
  std::int64_t width = 4;  // bytes of a stored number

  core::Bytes bytes() const { return core::Bytes(slice->columns.count() * width); }
};

// Empty slices are left out. A slice of a tensor that is not planned, of another shape or beyond
// its end is a defect of the caller. `slices` must outlive the answer.
std::vector<SlicePlace> place_slices(const std::vector<FileSpec>& files,
                                     const std::vector<SafetensorsPlan>& plans,
                                     std::span<const FileSlice> slices);

}  // namespace fm::checkpoint
