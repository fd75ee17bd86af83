// Numbers that are held, as a save reads them: number i of the store is i.
#include "offload/stored_numbers.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/check.h"

namespace fm::offload {
namespace {

using core::Bytes;
using core::Elements;

constexpr std::int64_t kPageNumbers = 1024;

class HeldNumbersTest : public testing::Test {
 protected:
  HeldNumbersTest() : store_(in_host_memory(kPage * 6)) {
    std::vector<float> all(6 * kPageNumbers);
    std::iota(all.begin(), all.end(), 0.0F);
    store_->write(Bytes(0), std::as_bytes(std::span(all))).wait();
  }
  // Of the four pages from the second one on.
  std::shared_ptr<core::TensorSource> held(PartRoom& room) {
    return held_numbers(store_->hold(kPage, kPage * 4), kPage, room);
  }

  std::unique_ptr<SliceStore> store_;
  core::Ledger ledger_;
};

TEST_F(HeldNumbersTest, AnyPartIsReadIntoTheSameRoom) {
  PartRoom room(ledger_, PartRoom::bytes_for(kPage * 4));
  const auto numbers = held(room);
  for (const std::int64_t first : {0L, 1L, 1023L, 1024L, 1500L}) {
    for (const std::int64_t count : {1L, 2L, 1024L, 1025L, 2500L}) {
      const float* const seen = numbers->fetch(Elements(first), Elements(count));
      EXPECT_EQ(seen[0], static_cast<float>(kPageNumbers + first));
      EXPECT_EQ(seen[count - 1], static_cast<float>(kPageNumbers + first + count - 1));
      numbers->drop(Elements(first), Elements(count), false);
    }
  }
}

TEST_F(HeldNumbersTest, ThereIsRoomForOnePartAtATime) {
  PartRoom room(ledger_, PartRoom::bytes_for(kPage));
  EXPECT_EQ(ledger_.current(core::Account::kSaves), kPage * 3);
  const auto numbers = held(room);
  numbers->fetch(Elements(0), Elements(1));
  EXPECT_THROW(numbers->fetch(Elements(5), Elements(1)), core::BugError);
  numbers->drop(Elements(0), Elements(1), false);
  EXPECT_THROW(numbers->fetch(Elements(0), Elements(4 * kPageNumbers)), core::BugError);
  EXPECT_EQ(*numbers->fetch(Elements(5), Elements(1)), 1029.0F);
}

// As long as the parts of in_parts(), which begin and end within pages.
TEST(PartRooms, HoldTheLargestPart) {
  const core::TensorSlice large =
      core::slice_in_memory("large", {20'000'000}, Elements(7), nullptr, Elements(19'000'000));
  Bytes largest;
  for (const core::TensorSlice& part : in_parts({large})) {
    largest = std::max(largest, core::bytes_of(part.columns, core::DType::kF32));
  }
  const Bytes room = PartRoom::bytes_for(core::bytes_of(large.columns, core::DType::kF32));
  EXPECT_EQ(room, core::round_up(largest, kPage) + kPage * 2);
}

// The rest of a range that could not be read is read again.
TEST_F(HeldNumbersTest, AReadThatFailsGivesItsRoomBack) {
  class Broken : public HeldBytes {
   public:
    Move read(Bytes /*at*/, std::span<std::byte> /*into*/) override {
      throw core::MachineError(core::ExitCode::kStorageFailed, "the drive");
    }
  };
  PartRoom room(ledger_, PartRoom::bytes_for(kPage));
  const auto broken = held_numbers(std::make_unique<Broken>(), kPage, room);
  EXPECT_THROW(broken->fetch(Elements(0), Elements(1)), core::MachineError);
  EXPECT_EQ(*held(room)->fetch(Elements(0), Elements(1)), 1024.0F);
}

}  // namespace
}  // namespace fm::offload
