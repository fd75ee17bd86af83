// {schedule} x {ZeRO 0-3} x {data 1, 2} with two tensor-parallel ranks: the bits of these two ranks
// without a pipeline. What a schedule does with one tensor-parallel rank is in
// schedule_matrix_test.cc.
#include <gtest/gtest.h>

#include <tuple>

#include "schedule_rows.h"
#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 2;

// 5 layers: chunks of 2 and of 1.
TrainOptions options_of(bool tied) {
  TrainOptions options = thin_options(testing::TempDir() + "/fm_layouts", tied, {5, 32, 4, 2, 44});
  options.max_seq_len = 6;
  options.model_parallel_size = 2;
  return options;
}

const RunTrace& two_tensor_ranks(bool tied) {
  static const RunTrace untied_run = run_small(options_of(false), 1, kSteps);
  static const RunTrace tied_run = run_small(options_of(true), 1, kSteps);
  return tied ? tied_run : untied_run;
}

class LayoutMatrix : public testing::TestWithParam<const pipeline::ScheduleRow*> {};

INSTANTIATE_TEST_SUITE_P(All, LayoutMatrix, testing::ValuesIn(every_schedule()),
                         [](const auto& cell) { return test_name(*cell.param); });

TEST_P(LayoutMatrix, TwoTensorRanksHaveTheSameBits) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int dp_size : {1, 2}) {
      const bool tied = (zero_stage + dp_size) % 2 == 0;
      TrainOptions options = options_of(tied);
      options.schedule = GetParam();
      options.zero_stage = zero_stage;
      options.pipe_parallel_size = 2;
      options.recompute = zero_stage == 2;
      options.shared_memory = zero_stage != 3;
      SCOPED_TRACE(core::concat("ZeRO ", zero_stage, ", ", dp_size, " data ranks"));
      EXPECT_EQ(first_difference(two_tensor_ranks(tied), run_small(options, dp_size, kSteps)), "");
    }
  }
}

TEST(LayoutMatrixReference, LearnsAndClips) {
  for (const bool tied : {false, true}) {
    const RunTrace& run = two_tensor_ranks(tied);
    EXPECT_NE(run.losses.front(), run.losses.back());
    for (const double norm : run.norms) EXPECT_GT(norm, 0.05);  // the clipping threshold
  }
}

}  // namespace
}  // namespace fm::engine
