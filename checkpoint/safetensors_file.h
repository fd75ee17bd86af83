// Files of safetensors that are read, and numbers of their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/safetensors_parse.h"
#include "core/files/mapped_file.h"
#include "core/tensor_slice.h"

namespace fm::checkpoint {

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
  // The bytes of a tensor as they are stored, while the file is open. UserError (11) as of read.
  std::span<const std::byte> bytes_of(const StoredTensor& tensor) const;
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

// "[2, 3]" for messages.
std::string shape_text(std::span<const std::int64_t> shape);

// Stored floating-point numbers to fp32, from memory of any alignment.
float f32_of_bf16(std::uint16_t bits);
float f32_of_f16(std::uint16_t bits);  // IEEE 754 binary16; exact, subnormals and NaN included

enum class StoredFloat : std::uint8_t { kF32, kF16, kBF16, kF64 };

// out.size() numbers from `bytes` (at least out.size() x width of `stored`). F64 is rounded to
// nearest even; the others are exact.
void to_f32(StoredFloat stored, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace fm::checkpoint
