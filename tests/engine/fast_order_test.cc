// What the fast order promises (docs/numbers.md, "Order of sums"): at equal data ranks ZeRO 0 = 1
// and 2 = 3, all four with one micro-batch per step, pipelines that reduce once equal no pipeline,
// and every run repeats itself.
#include <gtest/gtest.h>

#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

RunTrace fast_run(int zero_stage, int dp_size, bool tied = false, int pipe = 1,
                  const char* schedule = "1f1b") {
  TrainOptions options = small_options(testing::TempDir() + "/fm_fast", tied);
  options.zero_stage = zero_stage;
  options.pipe_parallel_size = pipe;
  options.schedule = &schedule_named(schedule);
  return run_small(options, dp_size, kSteps);
}

TEST(FastOrder, ZeroStagesThatReduceOnceAgree) {
  for (const int dp_size : {1, 2}) {
    EXPECT_EQ(first_difference(fast_run(0, dp_size), fast_run(1, dp_size)), "");
    EXPECT_EQ(first_difference(fast_run(0, dp_size, true), fast_run(1, dp_size, true)), "");
  }
}

TEST(FastOrder, ZeroStagesThatReduceEveryMicroBatchAgree) {
  for (const int dp_size : {1, 2}) {
    EXPECT_EQ(first_difference(fast_run(2, dp_size), fast_run(3, dp_size)), "");
    EXPECT_EQ(first_difference(fast_run(2, dp_size, true), fast_run(3, dp_size, true)), "");
  }
}

TEST(FastOrder, AllStagesAgreeAtOneMicroBatchPerStep) {
  for (const bool tied : {false, true}) {
    const RunTrace zero0 = fast_run(0, 4, tied);
    for (const int zero_stage : {1, 2, 3}) {
      EXPECT_EQ(first_difference(zero0, fast_run(zero_stage, 4, tied)), "") << zero_stage;
    }
  }
}

// Own parts of gradients lie elsewhere, and so does a tied gradient between its two ends.
TEST(FastOrder, SharedMemoryMovesNoBit) {
  for (const int zero_stage : {2, 3}) {
    TrainOptions options = small_options(testing::TempDir() + "/fm_fast", true);
    options.zero_stage = zero_stage;
    options.shared_memory = false;
    const RunTrace messages = run_small(options, 2, kSteps);
    EXPECT_EQ(first_difference(messages, fast_run(zero_stage, 2, true)), "") << zero_stage;
  }
}

// Reductions, publications and gathers that travel while units compute.
TEST(FastOrder, OverlapMovesNoBit) {
  for (const bool tied : {false, true}) {
    for (const int zero_stage : {0, 1, 2, 3}) {
      for (const bool recompute : {false, true}) {
        TrainOptions options = small_options(testing::TempDir() + "/fm_fast", tied);
        options.zero_stage = zero_stage;
        options.shared_memory = false;
        options.recompute = recompute;
        options.overlap = false;
        const RunTrace waits = run_small(options, 2, kSteps);
        options.overlap = true;
        using Window = std::optional<std::int64_t>;
        for (const Window window : {Window(), Window(0), Window(1'000'000)}) {
          options.prefetch_elements = window;
          EXPECT_EQ(first_difference(waits, run_small(options, 2, kSteps)), "") << zero_stage;
        }
      }
    }
  }
}

// 4 samples on 3 data ranks: two ranks have an empty micro-batch, which adds zeros.
TEST(FastOrder, UnevenlyDealtMicroBatchesKeepItsPromises) {
  for (const bool tied : {false, true}) {
    EXPECT_EQ(first_difference(fast_run(0, 3, tied), fast_run(1, 3, tied)), "");
    EXPECT_EQ(first_difference(fast_run(2, 3, tied), fast_run(3, 3, tied)), "");
    for (const int zero_stage : {0, 2}) {
      const RunTrace alone = fast_run(0, 1, tied);
      const RunTrace dealt = fast_run(zero_stage, 3, tied, 2);
      for (std::size_t step = 0; step < kSteps; ++step) {
        EXPECT_NEAR(alone.losses[step], dealt.losses[step], 1e-5 * alone.losses[step]);
        EXPECT_NEAR(alone.norms[step], dealt.norms[step], 1e-4 * alone.norms[step]);
      }
    }
  }
}

TEST(FastOrder, PipelinesThatReduceOnceEqualNoPipeline) {
  for (const int dp_size : {1, 2}) {
    for (const int zero_stage : {0, 1}) {
      const RunTrace plain = fast_run(zero_stage, dp_size);
      EXPECT_EQ(first_difference(plain, fast_run(zero_stage, dp_size, false, 2)), "");
      EXPECT_EQ(first_difference(plain, fast_run(zero_stage, dp_size, false, 2, "gpipe")), "");
    }
  }
}

TEST(FastOrder, EveryStagePipelinesAndRepeatsItself) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    const RunTrace once = fast_run(zero_stage, 2, true, 2);
    EXPECT_EQ(first_difference(once, fast_run(zero_stage, 2, true, 2)), "") << zero_stage;
  }
}

// The two orders differ in rounding only; if they did not differ at all, one of them would be idle.
// The canonical order sums the two ends of a tied matrix apart, the fast one in one gradient.
TEST(FastOrder, DiffersFromCanonicalByRoundingOnly) {
  for (const bool tied : {false, true}) {
    TrainOptions options = small_options(testing::TempDir() + "/fm_fast", tied);
    options.sum_order = core::SumOrder::kCanonical;
    const RunTrace canonical = run_small(options, 1, kSteps);
    for (const int zero_stage : {0, 2}) {
      const RunTrace fast = fast_run(zero_stage, zero_stage == 0 ? 1 : 2, tied);
      EXPECT_NE(first_difference(canonical, fast), "") << zero_stage;
      for (int step = 0; step < kSteps; ++step) {
        const auto at = static_cast<std::size_t>(step);
        EXPECT_NEAR(canonical.losses[at], fast.losses[at], 1e-5 * fast.losses[at]);
        EXPECT_NEAR(canonical.norms[at], fast.norms[at], 1e-4 * fast.norms[at]);
      }
    }
  }
}

// With gradients whole ZeRO 2 and 3 add micro-batches as ZeRO 1 does.
TEST(FastOrder, StagesThatAreToldToReduceOnceEqualZero1) {
  for (const bool tied : {false, true}) {
    for (const int pipe : {1, 2}) {
      const RunTrace zero1 = fast_run(1, 2, tied, pipe);
      for (const int zero_stage : {2, 3}) {
        for (const bool shared_memory : {false, true}) {
          TrainOptions options = small_options(testing::TempDir() + "/fm_fast", tied);
          options.zero_stage = zero_stage;
          options.pipe_parallel_size = pipe;
          options.shared_memory = shared_memory;
          options.reductions = core::Reductions::kOncePerStep;
          EXPECT_EQ(first_difference(zero1, run_small(options, 2, kSteps)), "") << zero_stage;
        }
      }
    }
  }
}

TEST(FastOrder, GathersOfAPhaseAndSegmentsMoveNoBit) {
  for (const bool tied : {false, true}) {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      for (const int pipe : {1, 2}) {
        TrainOptions options = small_options(testing::TempDir() + "/fm_fast", tied);
        options.zero_stage = 3;
        options.shared_memory = false;
        options.pipe_parallel_size = pipe;
        options.schedule = &schedule_named(schedule);
        const RunTrace often = run_small(options, 2, kSteps);
        options.regather = core::Regather::kPhase;
        EXPECT_EQ(first_difference(often, run_small(options, 2, kSteps)), "");
        options.recompute = true;
        options.checkpoint_segments = 2;
        EXPECT_EQ(first_difference(often, run_small(options, 2, kSteps)), "");
      }
    }
  }
}

}  // namespace
}  // namespace fm::engine
