// What lies in a folder of safetensors files, independent of who writes which part.
#pragma once

#include <string>
#include <vector>

#include "core/tensor_slice.h"

namespace fm::checkpoint {

struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
};

// One safetensors file of fp32 tensors. Every rank knows the whole list.
struct FileSpec {
  std::string file;  // e.g. weights-0003.safetensors
  std::vector<TensorSpec> tensors;
};

// A slice that this rank holds (to write) or wants (to read); all slices of all ranks together
// cover every tensor exactly once when writing.
struct FileSlice {
  std::string file;
  core::TensorSlice slice;
};

}  // namespace fm::checkpoint
