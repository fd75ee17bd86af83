// Bytes of tiers against sums over the model's tables.
#include "engine/plan/tier_forecast.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/plan/run_model.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using core::Bytes;
using core::Tier;

constexpr std::int64_t kPage = 4096;

class TierForecasts : public testing::Test {
 protected:
  TierForecasts() : options_(small_options(testing::TempDir() + "/fm_tier_forecast", false)) {
    options_.zero_stage = 3;
    opened_ = open_run_model(options_);
  }
  // Of so many data ranks, with moments and, where asked, parameters on NVMe, and a program that
  // moves each unit once.
  RunPlan sleeping(int ranks, Tier params, int slots) {
    RunPlan plan = make_run_plan(options_, opened_.model, {ranks});
    plan.state.rules.tiers = {.moments = Tier::kNvme, .params = params};
    plan.state.rules.awake = plan.rules.awake = 2;
    plan.state.rules.tier_slots = slots;
    plan.state.rules.params_in_memory = {};
    pipeline::Program program;
    for (int unit = 0; unit < opened_.model.unit_count(); ++unit) {
      for (const pipeline::Op op : {pipeline::Op::kGather, pipeline::Op::kFetch,
                                    pipeline::Op::kUpdate, pipeline::Op::kStore}) {
        program.push_back({op, -1, unit});
      }
    }
    plan.train = {program};
    return plan;
  }
  // Arrays of fp32 of this rank's slices, each in whole pages.
  Bytes arrays(int ranks, int of_each) const {
    Bytes out;
    for (int unit = 0; unit < opened_.model.unit_count(); ++unit) {
      const core::ShardMap map{opened_.model.table(unit).elements(), ranks};
      const std::int64_t bytes = map.slice().count() * 4;
      out += Bytes((bytes + kPage - 1) / kPage * kPage * of_each);
    }
    return out;
  }

  TrainOptions options_;
  model::OpenedModel opened_;
};

TEST_F(TierForecasts, StoresTakeMemoryThemselves) {
  options_.offload.optimizer_paths = {"/none/a", "/none/b"};
  options_.offload.disk.block_bytes = 8192;
  options_.offload.disk.queue_depth = 3;
  RunPlan plan = make_run_plan(options_, opened_.model, {2});
  EXPECT_EQ(plan.memory(0).drives, Bytes(0));
  plan.state.rules.tiers.moments = Tier::kNvme;
  plan.state.rules.awake = 2;
  const MemoryForecast memory = plan.memory(0);
  EXPECT_EQ(memory.drives, Bytes(arrays(2, 2).count() / 1024 + 2 * 3 * 8192));
  plan.offload.disk.method = offload::DiskOptions::Method::kMemory;
  EXPECT_EQ(plan.memory(0).total(), memory.total() - memory.drives);
}

TEST_F(TierForecasts, NothingSleepsByItself) {
  const TierForecast tiers = tier_forecast(make_run_plan(options_, opened_.model, {2}), 0);
  EXPECT_FALSE(tiers.any());
  EXPECT_EQ(tiers.read + tiers.written + tiers.ring, Bytes(0));
  EXPECT_FALSE(tiers.updates_early || tiers.gradients_rest);
}

TEST_F(TierForecasts, MomentsAreReadAndWrittenOncePerStep) {
  for (const int ranks : {1, 2}) {
    const TierForecast tiers = tier_forecast(sleeping(ranks, Tier::kDevice, 1), 0);
    EXPECT_EQ(tiers.nvme, arrays(ranks, 2));
    EXPECT_EQ(tiers.second_slot, Bytes(0));
    EXPECT_EQ(tiers.read, arrays(ranks, 2));
    EXPECT_EQ(tiers.written, arrays(ranks, 2));
    EXPECT_GT(tiers.ring, Bytes(0));
    EXPECT_LT(tiers.ring, arrays(ranks, 2));
  }
}

// 28 bytes per parameter: 4 for a gather, 12 read and 12 written by the update.
TEST_F(TierForecasts, ParametersAreGatheredAndUpdated) {
  const TierForecast tiers = tier_forecast(sleeping(2, Tier::kNvme, 2), 0);
  EXPECT_EQ(tiers.nvme, arrays(2, 6));
  EXPECT_EQ(tiers.second_slot, arrays(2, 3));
  EXPECT_EQ(tiers.read, arrays(2, 4));
  EXPECT_EQ(tiers.written, arrays(2, 3));
}

// A save reads moments and fp32 parameters; what moves in a step stays the same.
TEST_F(TierForecasts, SavesHaveASlotOfTheirOwn) {
  for (const int slots : {1, 2}) {
    RunPlan plan = sleeping(2, Tier::kNvme, slots);
    const TierForecast without = tier_forecast(plan, 0);
    plan.state.rules.save_slots = 1;
    const TierForecast tiers = tier_forecast(plan, 0);
    EXPECT_EQ(without.save_slot, Bytes(0));
    EXPECT_EQ(tiers.save_slot, arrays(2, 3));
    EXPECT_EQ(tiers.second_slot, arrays(2, 3 * (slots - 1)));
    EXPECT_EQ(tiers.nvme, arrays(2, 3 * (slots + 1)));
    EXPECT_EQ(tiers.read + tiers.written + tiers.ring,
              without.read + without.written + without.ring);
  }
}

// In a ring of two, units 0, 2, 4 and 6 take the first place.
TEST_F(TierForecasts, AFetchIsBehindTheOneBeforeInItsPlace) {
  std::map<int, int> behind;
  for (const TimedInstruction& at : timed_program(sleeping(2, Tier::kDevice, 1), 0, 1e9)) {
    EXPECT_EQ(at.arrays, at.op == pipeline::Op::kFetch || at.op == pipeline::Op::kStore ? 2 : 1);
    if (at.op == pipeline::Op::kFetch) behind[at.unit] = at.behind;
  }
  EXPECT_EQ(behind, (std::map<int, int>{{0, 6}, {1, 5}, {2, 0}, {3, 1}, {4, 2}, {5, 3}, {6, 4}}));
}

TEST_F(TierForecasts, AnInstructionTakesItsShareOfTheTime) {
  RunPlan plan = make_run_plan(options_, opened_.model, {2});
  double seconds = 0.0;
  double updates = 0.0;
  for (const TimedInstruction& at : timed_program(plan, 0, 1e9)) {
    (at.op == pipeline::Op::kUpdate ? updates : seconds) += at.seconds;
  }
  // Every micro-batch of this rank, forward and backward.
  EXPECT_NEAR(seconds, plan.flops_per_step() / 2 / 1e9, 1e-3 * seconds);
  EXPECT_GT(updates, 0.0);
}

}  // namespace
}  // namespace fm::engine
