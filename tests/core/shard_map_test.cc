#include <gtest/gtest.h>

#include "core/shard_plan.h"

namespace fm::core {
namespace {

TEST(ShardMap, SlicesAreEqualAndWholeBlocks) {
  const ShardMap map{Elements(5000), 2};  // 2500 each -> 3 blocks
  EXPECT_EQ(map.slice(), Elements(3072));
  EXPECT_EQ(map.padded(), Elements(6144));
  EXPECT_EQ(map.first_of(1), Elements(3072));
  EXPECT_EQ(map.blocks(), 5);
}

TEST(ShardMap, AnExactFitHasNoPadding) {
  const ShardMap map{Elements(4096), 4};
  EXPECT_EQ(map.slice(), Elements(1024));
  EXPECT_EQ(map.padded(), Elements(4096));
}

TEST(ShardMap, OneElementMoreCostsOneBlockPerOwner) {
  const ShardMap map{Elements(4097), 4};
  EXPECT_EQ(map.slice(), Elements(2048));
  EXPECT_EQ(map.padded(), Elements(8192));
}

// Of a unit of which nothing is trained: every rank has memory, and nobody has numbers.
TEST(ShardMap, NothingHasOneBlockPerOwner) {
  const ShardMap map{Elements(0), 4};
  EXPECT_EQ(map.slice(), Elements(1024));
  EXPECT_EQ(map.blocks(), 0);
}

TEST(ShardMap, SlicesCoverEverythingOnce) {
  for (std::int64_t elements = 1; elements < 20000; elements += 777) {
    for (int owners = 1; owners <= 9; ++owners) {
      const ShardMap map{Elements(elements), owners};
      EXPECT_EQ(map.slice().count() % 1024, 0);
      EXPECT_GE(map.padded(), Elements(elements));
      EXPECT_LT(map.padded().count() - elements, owners * 1024);
      EXPECT_EQ(map.first_of(owners), map.padded());
      EXPECT_EQ(map.blocks(), (ShardMap{Elements(elements), 1}.blocks()));
    }
  }
}

TEST(ShardPlan, EachZeroStageCutsOneKindMore) {
  constexpr Home kWhole = Home::kEveryRank;
  constexpr Home kCut = Home::kOneSliceEach;
  const Home expected[4][3] = {
      {kWhole, kWhole, kWhole}, {kWhole, kWhole, kCut}, {kWhole, kCut, kCut}, {kCut, kCut, kCut}};
  for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
    const ShardPlan plan = plan_of(zero_stage, SumOrder::kFast);
    EXPECT_EQ(plan.params, expected[zero_stage][0]);
    EXPECT_EQ(plan.grads, expected[zero_stage][1]);
    EXPECT_EQ(plan.optimizer, expected[zero_stage][2]);
    EXPECT_EQ(plan.reduce_every_micro, zero_stage >= 2);
    EXPECT_TRUE(plan_of(zero_stage, SumOrder::kCanonical).reduce_every_micro);
  }
}

TEST(ShardPlan, GradientsThatAreReducedOncePerStepAreWhole) {
  for (const int zero_stage : {2, 3}) {
    const auto of = [&](SumOrder order) {
      return plan_of(zero_stage, order, ParamSharing::kPrivate, Reductions::kOncePerStep);
    };
    EXPECT_EQ(of(SumOrder::kFast).grads, Home::kEveryRank);
    EXPECT_EQ(of(SumOrder::kFast).params, plan_of(zero_stage, SumOrder::kFast).params);
    EXPECT_FALSE(of(SumOrder::kFast).reduce_every_micro);
    EXPECT_TRUE(of(SumOrder::kCanonical).reduce_every_micro);
  }
}

}  // namespace
}  // namespace fm::core
