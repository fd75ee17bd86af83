// Places worked out by hand: slices are whole blocks of 1,024 floats, which are whole pages.
#include "zero/sleep_plan.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/pipeline/built_programs.h"

namespace fm::zero {
namespace {

using core::Account;
using core::Bytes;
using core::Tier;
using pipeline::BuildShape;

constexpr std::int64_t kKiB = 1024;

struct Made {
  Made(const BuildShape& shape, const core::Tiers& tiers, core::DType element = core::DType::kF32,
       int slots = 1, int pipe_rank = 0) {
    const auto add = [&](std::int64_t elements) {
      tables.emplace_back(std::vector<core::ParamEntry>{{.name = "w", .shape = {elements}}},
                          core::NoDecay{});
    };
    add(3000);
    for (int block = 0; block < shape.blocks; ++block) add(5000);
    add(1500);
    LayoutInput input;
    input.units = pipeline::placement_of(shape);
    input.rules.plan = core::plan_of(shape.zero_stage, shape.order);
    input.rules.element = element;
    input.rules.dp_size = 2;
    input.rules.micros = shape.micros;
    input.rules.tiers = tiers;
    input.rules.awake = 3;
    input.rules.gradients_in_ring = tiers.grads == Tier::kNvme;
    input.rules.tier_slots = slots;
    for (const core::ParamTable& table : tables) input.tables.push_back(&table);
    if (shape.tied) input.tied = &tables.front();
    layout = make_layout(input, pipe_rank, 0);
  }
  std::vector<core::ParamTable> tables;
  Layout layout;
};

constexpr core::Tiers kOptimizer = {.moments = Tier::kNvme, .masters = Tier::kNvme};

BuildShape tiny(int blocks) { return {.micros = 3, .blocks = blocks, .zero_stage = 2}; }

TEST(SleepPlan, FlatParametersFollowEachOtherAndAllOfOneLiesInOnePiece) {
  const Made made(tiny(1), kOptimizer, core::DType::kBF16);
  const SleepPlan plan(made.layout, {Role::kMoment, Role::kMaster});
  // The embedding's slice has 2 blocks: 8 KiB; the block's 3; the head's 1.
  EXPECT_EQ(plan.at({Role::kMoment, 0, 0}), Bytes(0));
  EXPECT_EQ(plan.at({Role::kMoment, 0, 1}), Bytes(8 * kKiB));
  EXPECT_EQ(plan.at({Role::kMaster, 0}), Bytes(16 * kKiB));
  EXPECT_EQ(plan.at({Role::kMoment, 1, 0}), Bytes(24 * kKiB));
  EXPECT_EQ(plan.at({Role::kMoment, 2, 0}), Bytes((24 + 36) * kKiB));
  EXPECT_EQ(plan.total(), Bytes((24 + 36 + 12) * kKiB));
  EXPECT_EQ(plan.moved_by(1, {Role::kMoment, Role::kMaster}), Bytes(36 * kKiB));
}

TEST(SleepPlan, ASecondSlotLiesBehindTheFirstOfTheSameFlatParameter) {
  const Made made(tiny(1), kOptimizer, core::DType::kF32, 2);
  const SleepPlan plan(made.layout, {Role::kMoment, Role::kMaster});
  EXPECT_EQ(plan.at({Role::kMoment, 0, 0, 1}), Bytes(16 * kKiB));
  EXPECT_EQ(plan.at({Role::kMoment, 1, 0, 0}), Bytes(32 * kKiB));
  EXPECT_EQ(plan.total(), Bytes(2 * (16 + 24 + 8) * kKiB));
  EXPECT_FALSE(plan.has(Role::kMaster, 0));  // fp32 parameters are their own master
  EXPECT_THROW(static_cast<void>(plan.at({Role::kMaster, 0})), core::BugError);
}

TEST(SleepPlan, NarrowParametersAreRoundedUpToPagesAndGradientsHaveOneSlot) {
  BuildShape shape = tiny(1);
  shape.zero_stage = 3;
  const core::Tiers tiers = {.grads = Tier::kNvme, .params = Tier::kNvme};
  const Made made(shape, tiers, core::DType::kBF16, 2);
  const SleepPlan params(made.layout, {Role::kParams});
  EXPECT_EQ(params.size_of(Role::kParams, 1), Bytes(8 * kKiB));  // 3 x 2 KiB
  EXPECT_EQ(params.total(), Bytes(2 * (4 + 8 + 4) * kKiB));
  const SleepPlan grads(made.layout, {Role::kGrads});
  EXPECT_EQ(grads.total(), Bytes((8 + 12 + 4) * kKiB));
}

// Parameters that follow from masters are in no checkpoint.
TEST(SleepPlan, ASlotOfSavesIsThereForWhatASaveReads) {
  BuildShape shape = tiny(1);
  shape.zero_stage = 3;
  const core::Tiers tiers = {.moments = Tier::kNvme, .masters = Tier::kNvme, .params = Tier::kNvme};
  for (const int slots : {1, 2}) {
    Made narrow(shape, tiers, core::DType::kBF16, slots);
    narrow.layout.save_slots = 1;
    const SleepPlan state(narrow.layout, {Role::kMoment, Role::kMaster});
    EXPECT_EQ(state.total(), Bytes((slots + 1) * 3 * (8 + 12 + 4) * kKiB));
    const SleepPlan rounded(narrow.layout, {Role::kParams});
    EXPECT_EQ(rounded.total(), Bytes(slots * (4 + 8 + 4) * kKiB));
    Made whole(shape, tiers, core::DType::kF32, slots);
    whole.layout.save_slots = 1;
    const SleepPlan params(whole.layout, {Role::kParams});
    EXPECT_EQ(params.total(), Bytes((slots + 1) * (8 + 12 + 4) * kKiB));
  }
}

TEST(SleepPlan, WhatStaysInMemoryHasNoPlace) {
  const Made made(tiny(1), {}, core::DType::kBF16);
  const SleepPlan plan(made.layout, {Role::kMoment, Role::kMaster, Role::kGrads, Role::kParams});
  EXPECT_EQ(plan.total(), Bytes(0));
}

TEST(SleepPlan, ASharedMatrixSleepsOnceWhereBothEndsAreOnOneRank) {
  BuildShape shape = tiny(1);
  shape.tied = true;
  const Made made(shape, kOptimizer);
  const SleepPlan plan(made.layout, {Role::kMoment});
  EXPECT_EQ(plan.total(), Bytes((16 + 24 + 8) * kKiB));
}

TEST(SleepPlan, APlaceOfTheRingIsAsLargeAsTheLargestThatTakesIt) {
  const Made awake(tiny(4), {}, core::DType::kBF16);
  EXPECT_EQ(awake.layout.charged(Account::kOptimizer), Bytes(3 * (8 + 4 * 12 + 4) * kKiB));
  const Made ring(tiny(4), kOptimizer, core::DType::kBF16);
  EXPECT_EQ(ring.layout.charged(Account::kOptimizer), Bytes(3 * 3 * 12 * kKiB));
  EXPECT_EQ(ring.layout.ring_place(4), 1);
  // No more places than flat parameters: the embedding's, and a block's.
  BuildShape shape = tiny(2);
  shape.pipe_ranks = 2;
  EXPECT_EQ(Made(shape, kOptimizer).layout.charged(Account::kOptimizer),
            Bytes(2 * (8 + 12) * kKiB));
}

}  // namespace
}  // namespace fm::zero
