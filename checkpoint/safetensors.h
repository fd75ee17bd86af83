// The safetensors format (huggingface/safetensors README, "Format"):
//   file   := u64le header_bytes, header, data
//   header := JSON object, first byte '{', may end in spaces:
//             { "__metadata__": {string: string}?, name: {"dtype", "shape", "data_offsets"} ... }
//   data_offsets are relative to the data, ranges are gapless, disjoint and end with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "core/files/mapped_file.h"

namespace fm::checkpoint {

// Names of the stored types are those of the format: "F32", "BF16", ...
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  core::Bytes begin;  // from the start of the file
  core::Bytes end;
};

// A part of the file whose CRC-32 is known.
struct StoredSum {
  std::string name;
  core::Bytes begin;
  core::Bytes end;
  std::uint32_t crc;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in order of their place in the file
  std::vector<StoredSum> sums = {};   // of a file of torch.save
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
// All of one type, metadata {"format": "pt"}: what transformers accepts.
SafetensorsPlan plan_floats(const std::vector<TensorSpec>& tensors, core::DType dtype);
inline SafetensorsPlan plan_f32(const std::vector<TensorSpec>& tensors) {
  return plan_floats(tensors, core::DType::kF32);
}

// An opened, validated file, by default one of safetensors. Used by one thread.
class TensorFile {
 public:
  using Parse = SafetensorsHeader (*)(std::span<const std::byte> file, const std::string& name);
  explicit TensorFile(const std::string& path, Parse parse = parse_safetensors);

  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  const StoredTensor* find(const std::string& name) const;  // null when absent
  // Fills the slice, converting F32, F16, BF16 and F64 to fp32. UserError (11) when the tensor is
  // absent, has another shape, cannot become fp32, or a number in the slice is not finite; also
  // when the part that holds it has another sum than the file says, which is looked at once.
  void read(const core::TensorSlice& slice) const;
  // Whether a tensor here and one there are of one type, one shape, and the same bytes.
  bool same(const std::string& name, const TensorFile& other, const std::string& other_name) const;

 private:
  void check_sums(const StoredTensor& tensor) const;
  // Elements [first, first + out.size()).
  void read(const StoredTensor& tensor, core::Elements first, std::span<float> out) const;

  std::string path_;
  core::MappedFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, std::size_t> place_;
  mutable std::vector<bool> summed_;  // by place in header_.sums
};

// Writes whole fp32 tensors to one file, by one process: temporary name, fsync, rename.
void write_safetensors(const std::string& path, std::span<const core::TensorSlice> tensors);

// "[2, 3]" for messages.
std::string shape_text(std::span<const std::int64_t> shape);

// The stored types of safetensors, in the order its writer sorts by (safetensors/src/tensor.rs).
struct StoredType {
  std::string_view name;
  std::uint64_t bits;
};

// Ascending; the writer puts the last first.
inline constexpr StoredType kStoredTypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

// Place in the table, or -1.
constexpr int rank_of_type(std::string_view name) {
  int rank = 0;
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return rank;
    ++rank;
  }
  return -1;
}

// Stored floating-point numbers to fp32, from memory of any alignment.
float f32_of_bf16(std::uint16_t bits);
float f32_of_f16(std::uint16_t bits);  // IEEE 754 binary16; exact, subnormals and NaN included

enum class StoredFloat : std::uint8_t { kF32, kF16, kBF16, kF64 };

// out.size() numbers from `bytes` (at least out.size() x width of `stored`). F64 is rounded to
// nearest even; the others are exact.
void to_f32(StoredFloat stored, std::span<const std::byte> bytes, std::span<float> out);

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
