// Optimizer state that sleeps while parameters stay, in a ring where blocks have smaller places
// than the embedding and the head.
#include <gtest/gtest.h>

#include <tuple>

#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

// An end has room for four blocks.
TrainOptions options_of(int micros, bool tied) {
  TrainOptions options = thin_options(testing::TempDir() + "/fm_ring_run", tied, {4, 24, 3, 1, 40});
  options.max_seq_len = 5;
  options.batch = {std::nullopt, 1, micros};
  return options;
}

TrainOptions asleep(TrainOptions options, int buffers, int zero_stage) {
  options.zero_stage = zero_stage;
  options.offload.optimizer = core::Tier::kNvme;
  options.offload.optimizer_buffers = buffers;
  options.offload.disk.method = offload::DiskOptions::Method::kMemory;
  return options;
}

using Cell = std::tuple<int, int, bool>;  // places of the ring, ZeRO stage, tied
class RingRun : public testing::TestWithParam<Cell> {};

TEST_P(RingRun, HasTheBitsOfOneRankInMemory) {
  const auto [buffers, zero_stage, tied] = GetParam();
  const RunTrace alone = run_small(options_of(4, tied), 1, kSteps);
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (const int pipe_ranks : {1, 2}) {
      TrainOptions options = asleep(options_of(2, tied), buffers, zero_stage);
      options.schedule = &schedule_named(schedule);
      options.pipe_parallel_size = pipe_ranks;
      EXPECT_EQ(first_difference(alone, run_small(options, 2, kSteps)), "")
          << schedule << ", pipe ranks " << pipe_ranks;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RingRun, testing::Combine(testing::Values(2, 3, 4), testing::Range(1, 4), testing::Bool()),
    [](const auto& cell) {
      const auto buffers = std::get<0>(cell.param);
      const auto zero_stage = std::get<1>(cell.param);
      const auto tied = std::get<2>(cell.param);
      return core::concat("Buffers", buffers, "Zero", zero_stage, tied ? "Tied" : "Untied");
    });

// In bf16 masters sleep, too; where steps are skipped, what was fetched is forgotten.
TEST(RingRuns, HaveTheBitsOfNarrowRunsInMemory) {
  for (const core::DType element : {core::DType::kBF16, core::DType::kF16}) {
    TrainOptions options = options_of(4, false);
    options.element = element;
    if (element == core::DType::kF16) options.loss_scale = {.first = 1e9};
    const RunTrace alone = run_small(options, 1, kSteps);
    options.batch = {std::nullopt, 1, 2};
    EXPECT_EQ(first_difference(alone, run_small(asleep(options, 3, 3), 2, kSteps)), "");
  }
}

TEST(RingRuns, EachPlaceIsAsLargeAsWhatTakesIt) {
  const TrainOptions options = asleep(options_of(2, false), 3, 2);
  const model::OpenedModel opened = open_run_model(options);
  const zero::Layout layout = make_run_plan(options, opened.model, {2}).layout(0, 0);
  EXPECT_EQ(layout.end_blocks, 4);
  EXPECT_EQ(layout.ring_places(), 2 + 4);
  std::vector<core::Elements> places, all;
  for (const zero::Reservation& at : layout.reservations) {
    if (at.role == zero::Role::kMoment) places.push_back(at.count);
  }
  for (const int flat_param : {0, 5, 1, 2, 3, 4}) {
    all.insert(all.end(), 2, layout.at(flat_param).optimizer.count);
  }
  EXPECT_EQ(places, all);
}

}  // namespace
}  // namespace fm::engine
