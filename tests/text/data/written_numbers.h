// Little-endian numbers, byte by byte: what numpy's tobytes and Python's struct write.
#pragma once

#include <cstdint>
#include <string>

namespace fm::testing {

// The lowest `width` bytes of the number in two's complement.
inline std::string bytes_of(std::int64_t number, int width) {
  std::string bytes;
  for (int at = 0; at < width; ++at) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * at));
  }
  return bytes;
}

template <class Numbers>
std::string bytes_of_all(const Numbers& numbers, int width) {
  std::string bytes;
  for (const auto number : numbers) bytes += bytes_of(static_cast<std::int64_t>(number), width);
  return bytes;
}

}  // namespace fm::testing
