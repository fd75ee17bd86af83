// Safetensors files made by hand, right or wrong.
#pragma once

#include <cstdint>
#include <string>

namespace fm::testing {

inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(length >> shift);
  return bytes;
}

// Header as given, then `data_bytes` zeros.
inline std::string file_of(const std::string& header, std::size_t data_bytes) {
  return length_bytes(header.size()) + header + std::string(data_bytes, '\0');
}

}  // namespace fm::testing
