#include <gtest/gtest.h>

#include <numeric>

#include "text/data/documents.h"

namespace fm::data {
namespace {

TEST(TokenStore, ReadsBackAcrossChunkBordersInBothWidths) {
  for (const std::int64_t vocab : {std::int64_t{1} << 16, (std::int64_t{1} << 16) + 1}) {
    core::Ledger ledger;
    TokenStore store(ledger, vocab);
    std::vector<std::int32_t> ids(700'000);
    for (int part = 0; part < 4; ++part) {  // 2.8 M ids: three chunks of 2^20
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ids[i] =
            static_cast<std::int32_t>((static_cast<std::size_t>(part) * ids.size() + i) % 65'521);
      }
      store.append(ids);
    }
    ASSERT_EQ(store.size(), 2'800'000);
    std::vector<std::int32_t> read(5);
    for (const std::int64_t first : {0LL, (1LL << 20) - 2, (2LL << 20) - 4, 2'799'995LL}) {
      store.read(first, read);
      for (std::int64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(read[static_cast<std::size_t>(i)], (first + i) % 65'521) << vocab;
      }
    }
  }
}

TEST(TokenStore, TwoBytesPerIdAreChargedWhereTheyFit) {
  core::Ledger ledger;
  {
    TokenStore store(ledger, 259);
    store.append(std::vector<std::int32_t>(10, 5));
    EXPECT_EQ(ledger.current(core::Account::kData), core::Bytes(2 << 20));
  }
  EXPECT_EQ(ledger.current(core::Account::kData), core::Bytes(0));
}

}  // namespace
}  // namespace fm::data
