#include "core/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace fm::core {
namespace {

constexpr Account kHome = Account::kParams;

TEST(Buffer, IsAlignedToSixtyFourBytesAndZero) {
  Ledger ledger;
  for (const std::int64_t bytes : {1, 63, 64, 65, 4096}) {
    const Buffer buffer(ledger, kHome, Bytes(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    const auto* first = static_cast<const std::uint8_t*>(buffer.data());
    EXPECT_TRUE(std::all_of(first, first + bytes, [](std::uint8_t byte) { return byte == 0; }));
  }
}

TEST(Buffer, IsChargedForAsLongAsItLives) {
  Ledger ledger;
  {
    const Buffer buffer = make_f32(ledger, kHome, Elements(10));
    EXPECT_EQ(buffer.bytes(), Bytes(40));
    EXPECT_EQ(buffer.floats().size(), 10U);
    EXPECT_EQ(ledger.current(kHome), Bytes(40));
  }
  EXPECT_EQ(ledger.current(kHome), Bytes(0));
  EXPECT_EQ(ledger.peak(kHome), Bytes(40));
}

TEST(Buffer, MoveKeepsTheMemoryAndTheChargeOnce) {
  Ledger ledger;
  Buffer source = make_f32(ledger, kHome, Elements(4));
  source.f32()[3] = 7.0F;
  const void* memory = source.data();
  const Buffer target(std::move(source));
  EXPECT_EQ(target.data(), memory);
  EXPECT_EQ(target.f32()[3], 7.0F);
  EXPECT_EQ(source.data(), nullptr);  // NOLINT(bugprone-use-after-move): the promise under test
  EXPECT_EQ(source.bytes(), Bytes(0));
  EXPECT_EQ(ledger.current(kHome), Bytes(16));
}

TEST(Buffer, MoveAssignmentFreesWhatWasThere) {
  Ledger ledger;
  Buffer kept = make_f32(ledger, Account::kGrads, Elements(8));
  Buffer other = make_f32(ledger, kHome, Elements(4));
  kept = std::move(other);
  EXPECT_EQ(ledger.current(Account::kGrads), Bytes(0));
  EXPECT_EQ(ledger.current(kHome), Bytes(16));
  kept = Buffer();
  EXPECT_EQ(ledger.current(kHome), Bytes(0));
}

TEST(Buffer, OfNoBytesOwnsNothing) {
  Ledger ledger;
  const Buffer buffer(ledger, kHome, Bytes(0));
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.floats().empty());
}

}  // namespace
}  // namespace fm::core
