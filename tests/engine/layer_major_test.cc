// Layer-major order: all micro-batches of a unit, then the next unit; its bits are every other
// schedule's.
#include <gtest/gtest.h>

#include <tuple>

#include "core/text.h"
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
                           const auto [micros, zero_stage, tied] = cell.param;
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

}  // namespace
}  // namespace fm::engine
