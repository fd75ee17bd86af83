// The stored types of safetensors, in the order its writer sorts by (safetensors/src/tensor.rs).
#pragma once

#include <cstdint>
#include <string_view>

namespace fm::checkpoint {

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
