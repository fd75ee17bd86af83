// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720 appendix B.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace fm::core {

// CRC of `bytes`, continuing from `crc`: crc32c(b, crc32c(a)) is the CRC of a followed by b.
// Uses the SSE4.2 instruction where the CPU has it; the same number everywhere.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
// Of each piece of `size` bytes in turn, of which `bytes` has sums.size(). Faster than one by one:
// the instruction takes other numbers in the time that it needs for one.
void crc32c_each(std::span<const std::byte> bytes, std::size_t size, std::span<std::uint32_t> sums);
// The CRC of a followed by b, of those of a and b and of how many bytes b has.
class JoinedCrc {
 public:
  // Cheap where `bytes` is that of the call before.
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::int64_t bytes);

 private:
  std::int64_t bytes_ = 0;
  std::uint32_t shift_ = std::uint32_t{1} << 31;  // x to the power of 8 bytes_
};
// Plain table version, the reference of the fast one.
std::uint32_t crc32c_plain(std::span<const std::byte> bytes, std::uint32_t crc = 0);

inline std::uint32_t crc32c(std::string_view text, std::uint32_t crc = 0) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())), crc);
}

}  // namespace fm::core
