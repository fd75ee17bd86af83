// What is asked of the system, whatever it does with it: madvise() of this program is answered
// here.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/buffer.h"

namespace fm::core {
namespace {

constexpr std::int64_t kPage = std::int64_t{2} << 20;

struct Advice {
  std::vector<std::pair<void*, std::size_t>> huge;  // what is to lie in huge pages
  bool refused = false;
};

Advice& advice() {
  static Advice given;
  return given;
}

class HugePagesTest : public ::testing::Test {
 protected:
  ~HugePagesTest() override { advice() = {}; }

  HugePages pages_;
  Ledger ledger_;
};

TEST_F(HugePagesTest, AreAskedForAndZero) {
  const Buffer large(ledger_, Account::kParams, Bytes(3 * kPage + 100), pages_);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % kPage, 0U);
  // The last page is not whole.
  ASSERT_EQ(advice().huge.size(), 1U);
  EXPECT_EQ(advice().huge[0].first, large.data());
  EXPECT_EQ(advice().huge[0].second, static_cast<std::size_t>(3 * kPage));
  EXPECT_TRUE(std::ranges::all_of(large.floats(), [](float value) { return value == 0.0F; }));
}

TEST_F(HugePagesTest, SmallOnesDoWhereTheyAreRefused) {
  advice().refused = true;
  const Buffer large(ledger_, Account::kParams, Bytes(kPage), pages_);
  EXPECT_EQ(advice().huge.size(), 1U);
  EXPECT_TRUE(std::ranges::all_of(large.floats(), [](float value) { return value == 0.0F; }));
}

TEST_F(HugePagesTest, SmallBuffersTakeNone) {
  const Buffer small(ledger_, Account::kParams, Bytes(kPage - 1), pages_);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 64, 0U);
  EXPECT_TRUE(advice().huge.empty());
  EXPECT_EQ(ledger_.current(Account::kParams), Bytes(kPage - 1));
}

}  // namespace
}  // namespace fm::core

extern "C" int madvise(void* data, std::size_t size, int kind) noexcept {
  if (kind != MADV_HUGEPAGE) return static_cast<int>(syscall(SYS_madvise, data, size, kind));
  fm::core::advice().huge.emplace_back(data, size);
  errno = EINVAL;
  return fm::core::advice().refused ? -1 : 0;
}
