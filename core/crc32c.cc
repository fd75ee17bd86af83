#include "core/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "core/check.h"

namespace fm::core {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78U;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

using Crc = std::uint32_t (*)(std::span<const std::byte>, std::uint32_t);

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(std::span<const std::byte> bytes,
                                                             std::uint32_t crc) {
  std::uint64_t wide = ~crc;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; left > 0; ++at, --left) {
    narrow = _mm_crc32_u8(narrow, std::to_integer<std::uint8_t>(*at));
  }
  return ~narrow;
}

bool has_sse42() { return __builtin_cpu_supports("sse4.2") != 0; }
Crc choose() { return has_sse42() ? crc32c_sse42 : crc32c_plain; }

constexpr std::size_t kAtOnce = 4;

__attribute__((target("sse4.2"))) void each_of_four(const std::byte* first, std::size_t size,
                                                    std::uint32_t* sums) {
  std::array<std::uint64_t, kAtOnce> wide;
  wide.fill(~std::uint32_t{0});
  for (std::size_t at = 0; at < size; at += 8) {
    for (std::size_t piece = 0; piece < kAtOnce; ++piece) {
      std::uint64_t word = 0;
      std::memcpy(&word, first + piece * size + at, 8);
      wide[piece] = _mm_crc32_u64(wide[piece], word);
    }
  }
  for (std::size_t piece = 0; piece < kAtOnce; ++piece) {
    sums[piece] = ~static_cast<std::uint32_t>(wide[piece]);
  }
}

// How many pieces are done.
std::size_t begin_each(std::span<const std::byte> bytes, std::size_t size,
                       std::span<std::uint32_t> sums) {
  static const bool kHas = has_sse42();
  if (!kHas || size % 8 != 0) return 0;
  std::size_t done = 0;
  for (; done + kAtOnce <= sums.size(); done += kAtOnce) {
    each_of_four(bytes.data() + done * size, size, sums.data() + done);
  }
  return done;
}
#else
std::size_t begin_each(std::span<const std::byte> /*bytes*/, std::size_t /*size*/,
                       std::span<std::uint32_t> /*sums*/) {
  return 0;
}
Crc choose() { return crc32c_plain; }
#endif

// Polynomials over GF(2) modulo that of the CRC; the highest bit is the coefficient of 1.
constexpr std::uint32_t kOne = std::uint32_t{1} << 31;

constexpr std::uint32_t product_of(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1U) != 0 ? kPolynomial : 0U);
  }
  return product;
}

}  // namespace

std::uint32_t JoinedCrc::operator()(std::uint32_t a, std::uint32_t b, std::int64_t bytes) {
  if (bytes != bytes_) {
    bytes_ = bytes;
    shift_ = kOne;
    std::uint32_t power = kOne >> 8;  // x^8
    for (std::int64_t left = bytes; left > 0; left >>= 1) {
      if ((left & 1) != 0) shift_ = product_of(shift_, power);
      power = product_of(power, power);
    }
  }
  return product_of(shift_, a) ^ b;
}

std::uint32_t crc32c_plain(std::span<const std::byte> bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const std::byte byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU];
  }
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  static const Crc kChosen = choose();
  return kChosen(bytes, crc);
}

void crc32c_each(std::span<const std::byte> bytes, std::size_t size,
                 std::span<std::uint32_t> sums) {
  FM_CHECK(bytes.size() == size * sums.size(), "pieces must be whole; bytes=", bytes.size(),
           ", pieces=", sums.size(), " of ", size);
  for (std::size_t at = begin_each(bytes, size, sums); at < sums.size(); ++at) {
    sums[at] = crc32c(bytes.subspan(at * size, size));
  }
}

}  // namespace fm::core
