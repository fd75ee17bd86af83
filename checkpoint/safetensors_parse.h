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
#include <vector>

#include "core/types.h"

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

}  // namespace fm::checkpoint
