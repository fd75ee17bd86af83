// The safetensors format (huggingface/safetensors README, "Format"):
//   file   := u64le header_bytes, header, data
//   header := JSON object, first byte '{', may end in spaces:
//             { "__metadata__": {string: string}?, name: {"dtype", "shape", "data_offsets"} ... }
//   data_offsets are relative to the data, ranges are gapless, disjoint and end with the file.
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "core/mapped_file.h"

namespace fm::checkpoint {

// Names of the stored types are those of the format: "F32", "BF16", ...
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  core::Bytes begin;  // from the start of the file
  core::Bytes end;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in order of their place in the file
  std::map<std::string, std::string> metadata;
  core::Bytes data_begin;
};

// Checks every rule of the format; the first one broken is a UserError (11) with `file_name`.
// Bounded work: a header that lies fails before memory is spent on its claims.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& file_name);

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
// All fp32, metadata {"format": "pt"}: what transformers accepts.
SafetensorsPlan plan_f32(const std::vector<TensorSpec>& tensors);

// An opened, validated file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  const StoredTensor* find(const std::string& name) const;  // null when absent
  // Fills the slice, converting F32, F16, BF16 and F64 to fp32. UserError (11) when the tensor is
  // absent, has another shape, cannot become fp32, or a number in the slice is not finite.
  void read(const core::TensorSlice& slice) const;
  // Whether a tensor here and one there are of one type, one shape, and the same bytes.
  bool same(const std::string& name, const SafetensorsFile& other,
            const std::string& other_name) const;

 private:
  std::string path_;
  core::MappedFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, std::size_t> place_;
};

// Writes whole fp32 tensors to one file, by one process: temporary name, fsync, rename.
void write_safetensors(const std::string& path, std::span<const core::TensorSlice> tensors);

// "[2, 3]" for messages.
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace fm::checkpoint
