// Vectors of RFC 3720 appendix B.4 and the check value of the CRC catalogue (CRC-32/ISCSI).
#include "core/crc32c.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace fm::core {
namespace {

struct Vector {
  std::string bytes;
  std::uint32_t crc;
};

std::string counting(int first, int change) {
  std::string out;
  for (int i = 0; i < 32; ++i) out.push_back(static_cast<char>(first + i * change));
  return out;
}

TEST(Crc32c, MatchesPublishedVectors) {
  const Vector vectors[] = {
      {std::string(32, '\0'), 0x8A9136AAU}, {std::string(32, '\xFF'), 0x62A8AB43U},
      {counting(0, 1), 0x46DD794EU},        {counting(31, -1), 0x113FDB5CU},
      {"123456789", 0xE3069283U},           {"", 0U},
  };
  for (const Vector& each : vectors) {
    const auto bytes = std::as_bytes(std::span(each.bytes.data(), each.bytes.size()));
    EXPECT_EQ(crc32c(bytes), each.crc);
    EXPECT_EQ(crc32c_plain(bytes), each.crc);
  }
}

TEST(Crc32c, ContinuesOverPieces) {
  const std::string text = "123456789";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), 0xE3069283U);
  }
}

TEST(Crc32c, OfEachPieceInTurn) {
  const std::string text = counting(3, 7) + counting(250, -5) + counting(9, 1) + counting(1, 2);
  for (const std::size_t size : {std::size_t{8}, std::size_t{5}, std::size_t{16}}) {
    for (std::size_t count = 0; count * size <= text.size(); ++count) {
      std::vector<std::uint32_t> sums(count);
      const auto bytes = std::as_bytes(std::span(text.data(), count * size));
      crc32c_each(bytes, size, sums);
      for (std::size_t at = 0; at < count; ++at) {
        EXPECT_EQ(sums[at], crc32c_plain(bytes.subspan(at * size, size))) << size << ": " << at;
      }
    }
  }
}

TEST(Crc32c, OfTwoIsJoinedFromBoth) {
  const std::string text = counting(3, 7) + counting(250, -5) + std::string(9, '\0');
  JoinedCrc join;
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string behind = text.substr(cut);
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(join(crc32c(text.substr(0, cut)), crc32c(behind), std::ssize(behind)),
                crc32c(text));
    }
  }
}

}  // namespace
}  // namespace fm::core
