// Ranks with devices that talk by staging: the cases of every backend.
#include "comm/staged/staged.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/meet/world.h"
#include "core/buffer.h"
#include "core/check.h"
#include "device/fake/fake_device.h"
#include "tests/comm/collective_cases.h"
#include "tests/comm/through_device.h"

namespace fm::comm {
namespace {

constexpr core::Bytes kMemory(std::int64_t{256} << 20);

class Staged : public testing::TestWithParam<int> {};

TEST_P(Staged, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  const auto body = [](Communicator& world) {
    device::FakeDevice device(static_cast<std::uint64_t>(world.rank()), kMemory);
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
    ThroughDevice ranks(staged(world.split(all), device), device);
    throw_unless_cases_hold(ranks);
  };
  EXPECT_EQ(ranks_through(body, [](const RankBody& each) { run_ranks(GetParam(), each); }),
            GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sizes, Staged, testing::Values(1, 2, 3, 4));

TEST(Staged, SharesNothing) {
  device::FakeDevice device(1, kMemory);
  const auto ranks = staged(make_solo(), device);
  EXPECT_EQ(&ranks->memory(), &device.memory());
  EXPECT_EQ(ranks->common_memory(), nullptr);
  EXPECT_FALSE(ranks->may_share(std::vector{0}));
  EXPECT_EQ(ranks->sums(), Sums::kFixedTree);
  EXPECT_EQ(ranks->describe(), "solo, 1 rank, staged for a fake device");
}

// What one rank sends to itself is there in the order of its queue: the host waits for nothing.
TEST(Staged, OneRankMovesNothingThroughTheHost) {
  device::FakeDevice device(1, kMemory);
  const auto ranks = staged(make_solo(), device);
  constexpr core::Elements kCount(1000);
  const core::Bytes bytes = core::bytes_of(kCount, core::DType::kF32);
  core::Ledger ledger;
  core::Buffer from(ledger, core::Account::kScratch, bytes, device.memory());
  core::Buffer to(ledger, core::Account::kScratch, bytes, device.memory());
  std::vector<float> values(1000, 3.5F);
  device.compute().copy_in(values.data(), from.data(), bytes);
  const ConstSpan send{from.data(), kCount, core::DType::kF32};
  EXPECT_TRUE(ranks->all_reduce({from.data(), kCount, core::DType::kF32}).done());
  EXPECT_TRUE(ranks->all_gather(send, {from.data(), kCount, core::DType::kF32}).done());
  EXPECT_TRUE(ranks->reduce_scatter(send, {to.data(), kCount, core::DType::kF32}).done());
  std::vector<float> got(1000);
  device.compute().copy_out(to.data(), got.data(), bytes);
  device.compute().finish();
  EXPECT_EQ(got, values);
}

}  // namespace
}  // namespace fm::comm
