// Layer-major order: all micro-batches of a unit, then the next unit; its bits are every other
// schedule's. What sleeps then crosses the way to its store once a step: gradients rest there until
// the norm is known, or units are updated before it.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <tuple>

#include "comm/meet/world.h"
#include "core/fault.h"
#include "core/text.h"
#include "engine/plan/default_schedule.h"
#include "engine/plan/tier_forecast.h"
#include "engine/state/persistence.h"
#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

TrainOptions options_of(int micros, bool tied) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_layer_major", tied, {4, 24, 3, 1, 40});
  options.max_seq_len = 5;
  options.batch = {std::nullopt, 1, micros};
  return options;
}

using Cell = std::tuple<int, int, bool>;  // micro-batches of a rank, ZeRO stage, tied
class LayerMajor : public testing::TestWithParam<Cell> {};

// With messages and in shared memory, on one and two data ranks, in a pipe, and recomputed in
// segments of one and of two blocks.
TEST_P(LayerMajor, HasTheBitsOfOneRank) {
  const auto [micros, zero_stage, tied] = GetParam();
  TrainOptions options = options_of(micros, tied);
  const RunTrace alone = run_small(options, 1, kSteps);
  options.schedule = &schedule_named("layer-major");
  options.zero_stage = zero_stage;
  EXPECT_EQ(first_difference(alone, run_small(options, 1, kSteps)), "");
  options.recompute = true;
  options.checkpoint_interval = 1 + zero_stage % 2;
  EXPECT_EQ(first_difference(alone, run_small(options, 1, kSteps)), "");
  options.pipe_parallel_size = 2;
  EXPECT_EQ(first_difference(alone, run_small(options, 1, kSteps)), "");
  options.pipe_parallel_size = 1;
  TrainOptions two = options_of(2 * micros, tied);
  const RunTrace twice = run_small(two, 1, kSteps);
  for (const bool shared_memory : {true, false}) {
    options.shared_memory = shared_memory;
    EXPECT_EQ(first_difference(twice, run_small(options, 2, kSteps)), "") << shared_memory;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayerMajor,
                         testing::Combine(testing::Values(1, 2, 3, 8), testing::Range(0, 4),
                                          testing::Bool()),
                         [](const auto& cell) {
                           const auto micros = std::get<0>(cell.param);
                           const auto zero_stage = std::get<1>(cell.param);
                           const auto tied = std::get<2>(cell.param);
                           return core::concat("Micros", micros, "Zero", zero_stage,
                                               tied ? "Tied" : "Untied");
                         });

// In the fast order, too, where one rank has no tied matrix whose ends are added in turn.
TEST(LayerMajorOrder, HasTheBitsOf1F1BInTheFastOrder) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    TrainOptions options = options_of(3, false);
    options.sum_order = core::SumOrder::kFast;
    options.zero_stage = zero_stage;
    const RunTrace other = run_small(options, 2, kSteps);
    options.schedule = &schedule_named("layer-major");
    EXPECT_EQ(first_difference(other, run_small(options, 2, kSteps)), "") << zero_stage;
  }
}

// Moments, masters and gradients sleep; fewer flat parameters are awake than there are.
TrainOptions asleep(TrainOptions options, int buffers = 2) {
  options.schedule = &schedule_named("layer-major");
  options.offload.optimizer = core::Tier::kNvme;
  options.offload.optimizer_buffers = buffers;
  options.offload.disk.method = offload::DiskOptions::Method::kMemory;
  return options;
}

// Parameters, too, so that the step can take back everything; nothing clips.
TrainOptions all_asleep(TrainOptions options, int buffers = 2) {
  options = asleep(std::move(options), buffers);
  options.zero_stage = 3;
  options.gradient_clipping = 0.0;
  options.offload.params = core::Tier::kNvme;
  options.offload.params_in_host = 0;
  return options;
}

pipeline::GradientRing ring_of(const TrainOptions& options, int ranks) {
  const model::OpenedModel opened = open_run_model(options);
  return make_run_plan(options, opened.model, {ranks}).rules.gradients;
}

// All micro-batches are kept at once, which a limit may forbid.
TEST(LayerMajorOrder, GivesWayWhereNobodyChoseItAndItCannotBe) {
  TrainOptions options = all_asleep(options_of(3, false));
  options.schedule = &pipeline::default_schedule();
  const model::OpenedModel opened = open_run_model(options);
  const auto schedule = [&] { return make_run_plan(options, opened.model, {1}).schedule; };
  EXPECT_EQ(schedule(), "layer-major");
  EXPECT_NE(default_schedule_note(options, schedule()), "");
  options.activation_limit = 1.0;
  EXPECT_EQ(schedule(), options.schedule->name);
  EXPECT_EQ(default_schedule_note(options, schedule()), "");
}

TrainOptions in(core::DType element, TrainOptions options) {
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  return options;
}

class GradientsAtRest : public testing::TestWithParam<Cell> {};

TEST_P(GradientsAtRest, HaveTheBitsOfOneRankInMemory) {
  const auto [micros, zero_stage, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16, core::DType::kF16}) {
    const RunTrace alone = run_small(in(element, options_of(2 * micros, tied)), 1, kSteps);
    TrainOptions options = asleep(in(element, options_of(micros, tied)), 2 + micros % 2);
    options.zero_stage = zero_stage;
    options.recompute = micros == 2;
    options.shared_memory = element == core::DType::kF32;
    EXPECT_TRUE(ring_of(options, 2).rests);
    EXPECT_EQ(first_difference(alone, run_small(options, 2, kSteps)), "") << core::name_of(element);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradientsAtRest,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2, 3),
                                          testing::Bool()),
                         [](const auto& cell) {
                           const auto micros = std::get<0>(cell.param);
                           const auto zero_stage = std::get<1>(cell.param);
                           const auto tied = std::get<2>(cell.param);
                           return core::concat("Micros", micros, "Zero", zero_stage,
                                               tied ? "Tied" : "Untied");
                         });

// One micro-batch, too, finishes each unit's gradient in one go, in any schedule; but who has room
// for parameters has room for gradients.
TEST(GradientsAtRestOrder, RestWhereEachIsFinishedInOneGo) {
  TrainOptions options = asleep(options_of(1, false));
  options.zero_stage = 3;
  EXPECT_TRUE(ring_of(options, 1).rests);
  options.schedule = &schedule_named("1f1b");
  options.schedule_chosen = true;
  EXPECT_EQ(ring_of(options, 1), pipeline::GradientRing{});
  options.offload.params = core::Tier::kNvme;
  options.offload.params_in_host = 0;
  EXPECT_EQ(ring_of(options, 1), (pipeline::GradientRing{.places = 2, .rests = true}));
  options.batch = {std::nullopt, 1, 2};
  EXPECT_EQ(ring_of(options, 1), pipeline::GradientRing{});
  options.schedule = &schedule_named("layer-major");
  EXPECT_TRUE(ring_of(options, 1).rests);
  options.recompute = true;
  options.checkpoint_interval = 3;  // three units at once, for two places
  EXPECT_EQ(ring_of(options, 1), pipeline::GradientRing{});
  options.offload.optimizer_buffers = 3;
  EXPECT_TRUE(ring_of(options, 1).rests);
}

TEST(GradientsAtRestOrder, RestBetweenPipeRanksInTheFastOrder) {
  for (const bool tied : {false, true}) {
    TrainOptions options = options_of(3, tied);
    options.sum_order = core::SumOrder::kFast;
    options.pipe_parallel_size = 2;
    options.schedule = &schedule_named("layer-major");
    options.zero_stage = 2;
    const RunTrace in_memory = run_small(options, 2, kSteps);
    EXPECT_EQ(first_difference(in_memory, run_small(asleep(options), 2, kSteps)), "") << tied;
  }
}

TEST(EarlyUpdates, ComeWhereNothingLaterCanChangeThem) {
  const TrainOptions options = all_asleep(options_of(2, false));
  EXPECT_EQ(ring_of(options, 2),
            (pipeline::GradientRing{.places = 2, .updates_early = true, .takes_from_slots = true}));
  const auto rests = [&](const auto& change) {
    TrainOptions other = options;
    change(other);
    return ring_of(other, 2) == pipeline::GradientRing{.places = 2, .rests = true};
  };
  EXPECT_TRUE(rests([](TrainOptions& o) { o.gradient_clipping = 1.0; }));
  EXPECT_TRUE(rests([](TrainOptions& o) { o.element = core::DType::kF16; }));
  EXPECT_TRUE(rests([](TrainOptions& o) { o.offload.params_in_host = 1; }));
  EXPECT_TRUE(rests([](TrainOptions& o) { o.offload.params = core::Tier::kDevice; }));
}

// Only whole weights are what the owner has.
TEST(EarlyUpdates, TakeNoRoundedWeightsFromSlots) {
  TrainOptions options = all_asleep(options_of(2, false));
  const model::OpenedModel opened = open_run_model(options);
  const WorldShape two_hosts{2, core::ParamSharing::kPrivate, 1, {0, 1}};
  const auto ring = [&] { return make_run_plan(options, opened.model, two_hosts).rules.gradients; };
  EXPECT_TRUE(ring().updates_early && ring().takes_from_slots);
  options.weight_travel = comm::Travel::kInt8;
  EXPECT_TRUE(ring().updates_early);
  EXPECT_FALSE(ring().takes_from_slots);
}

using EarlyCell = std::tuple<int, int, bool>;  // micro-batches of the step, data ranks, tied
class EarlyUpdatesMatrix : public testing::TestWithParam<EarlyCell> {};

TEST_P(EarlyUpdatesMatrix, HaveTheBitsOfOneRankInMemory) {
  const auto [micros, dp_size, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    TrainOptions options = in(element, options_of(micros, tied));
    options.batch = {micros, 1, {}};
    options.gradient_clipping = 0.0;
    const RunTrace alone = run_small(options, 1, kSteps);
    options.recompute = micros == 8;
    for (const int pipe : {1, 2}) {
      options.pipe_parallel_size = pipe;
      const TrainOptions sleeping = all_asleep(options, 1 + dp_size);
      EXPECT_TRUE(ring_of(sleeping, dp_size * pipe).updates_early);
      EXPECT_EQ(first_difference(alone, run_small(sleeping, dp_size, kSteps)), "")
          << core::name_of(element) << ", pipe ranks " << pipe;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EarlyUpdatesMatrix,
                         testing::Combine(testing::Values(2, 6, 8), testing::Values(1, 2),
                                          testing::Bool()),
                         [](const auto& cell) {
                           const auto micros = std::get<0>(cell.param);
                           const auto dp_size = std::get<1>(cell.param);
                           const auto tied = std::get<2>(cell.param);
                           return core::concat("Micros", micros, "Dp", dp_size,
                                               tied ? "Tied" : "Untied");
                         });

// What was updated in the step, and what was not yet: none of it counts, and the next step goes on
// from the old slots.
TEST(EarlyUpdates, ASkippedStepTakesTheOldSlots) {
  for (const bool tied : {false, true}) {
    const auto run = [&](const TrainOptions& options, int ranks) {
      core::arm_faults("point=bwd.layer,step=2,action=nan");
      const RunTrace trace = run_small(options, ranks, 4);
      core::arm_faults("");
      return trace;
    };
    TrainOptions options = options_of(4, tied);
    options.gradient_clipping = 0.0;
    const RunTrace alone = run(options, 1);
    EXPECT_FALSE(std::isfinite(alone.norms[1]));
    EXPECT_TRUE(std::isfinite(alone.norms[3]));
    EXPECT_EQ(first_difference(alone, run(all_asleep(options), 1)), "") << tied;
    options.gradient_clipping = 0.05;
    const RunTrace clipped = run(options, 1);
    options.zero_stage = 1;
    EXPECT_EQ(first_difference(clipped, run(asleep(options), 1)), "") << tied;
  }
}

// Of one rank, where slices are whole, in a step of so many micro-batches.
struct Traffic {
  std::int64_t numbers = 0, of_blocks = 0, embedding = 0;  // bytes of parameters in fp32
  std::int64_t read = 0, written = 0;
};

// Of the first step.
Traffic traffic_of(const TrainOptions& options) {
  Traffic out;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    core::Ledger ledger;
    const model::OpenedModel opened = open_run_model(options);
    const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
    RankState state(options, plan, opened.model, world, ledger);
    fill_state(options, opened, state);
    const auto count = [&](std::int64_t sign) {
      for (const auto* store : {state.store.get(), state.params_store.get()}) {
        out.read += sign * store->totals().read.count();
        out.written += sign * store->totals().written.count();
      }
    };
    count(-1);
    SmallSteps steps(options, opened.model, state);
    steps.run(1);
    steps.settle();
    count(+1);
    for (const zero::FlatParam& each : state.layout.flat_params) {
      const std::int64_t bytes = 4 * each.map.padded().count();
      out.numbers += bytes;
      if (plan.units().is_block(each.unit)) out.of_blocks += bytes;
      if (each.unit == 0) out.embedding += bytes;
    }
  });
  return out;
}

// Per parameter 28 bytes: 4 read forward, 4 backward, 8 and for the embedding 12 read and 12
// written by the update; the head has one phase. What rests is read again for the update, with
// gradients that are 4 more each way.
TEST(TierTraffic, IsThatOfOnePhaseWhateverTheNumberOfMicros) {
  for (const int micros : {1, 3, 8}) {
    TrainOptions options = all_asleep(options_of(micros, false));
    const Traffic early = traffic_of(options);
    EXPECT_EQ(early.read, 3 * early.numbers + early.of_blocks + early.embedding) << micros;
    EXPECT_EQ(early.written, 3 * early.numbers) << micros;
    const model::OpenedModel opened = open_run_model(options);
    const TierForecast planned = tier_forecast(make_run_plan(options, opened.model, {1}), 0);
    EXPECT_EQ(planned.read.count(), early.read) << micros;
    EXPECT_EQ(planned.written.count(), early.written) << micros;
    options.gradient_clipping = 1.0;
    const Traffic resting = traffic_of(options);
    EXPECT_EQ(resting.read, 5 * early.numbers + early.of_blocks) << micros;
    EXPECT_EQ(resting.written - early.written, early.numbers) << micros;
    if (micros < 8) continue;
    options.schedule = &schedule_named("1f1b");
    options.schedule_chosen = true;
    const Traffic often = traffic_of(options);
    EXPECT_GT(often.read + often.written, 5 * (early.read + early.written) / 2);
  }
}

}  // namespace
}  // namespace fm::engine
