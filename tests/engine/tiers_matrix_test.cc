// Where the optimizer's state sleeps changes no bit of losses, norms and weights: on drives it has
// the results of one rank that keeps it in memory. Its store is one of tests, whose moves happen
// when they are waited for, and where what is read too early is NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "core/fault.h"
#include "core/text.h"
#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 4;

enum class Pipe : std::uint8_t { kNone, kOneFOneB, kGPipe };

TrainOptions canonical_options(bool tied, core::DType element = core::DType::kF32) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_tiers", tied);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  return options;
}

TrainOptions asleep(TrainOptions options, int buffers = 4) {
  options.offload.optimizer = core::Tier::kNvme;
  options.offload.optimizer_buffers = buffers;
  options.offload.disk.method = offload::DiskOptions::Method::kMemory;
  return options;
}

TrainOptions with_layout(TrainOptions options, int zero_stage, Pipe pipe) {
  options.zero_stage = zero_stage;
  options.pipe_parallel_size = pipe == Pipe::kNone ? 1 : 2;
  options.schedule = &schedule_named(pipe == Pipe::kGPipe ? "gpipe" : "1f1b");
  return options;
}

const RunTrace& reference(bool tied, core::DType element) {
  static std::map<std::pair<bool, core::DType>, RunTrace> runs;
  const auto [at, fresh] = runs.try_emplace({tied, element});
  if (fresh) at->second = run_small(canonical_options(tied, element), 1, kSteps);
  return at->second;
}

using Cell = std::tuple<int, int, Pipe, bool>;  // zero, dp, pipe, tied
class TiersMatrix : public testing::TestWithParam<Cell> {};

TEST_P(TiersMatrix, EqualsOneRankInMemoryBitForBit) {
  const auto [zero_stage, dp_size, pipe, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16, core::DType::kF16}) {
    TrainOptions options = with_layout(asleep(canonical_options(tied, element)), zero_stage, pipe);
    for (const bool shared_memory : {true, false}) {
      if (element == core::DType::kF16 && !shared_memory) continue;  // as bf16 in all that moves
      options.shared_memory = shared_memory;
      EXPECT_EQ(first_difference(reference(tied, element), run_small(options, dp_size, kSteps)), "")
          << core::name_of(element) << (shared_memory ? ", shared memory" : ", messages");
    }
  }
}

std::string name_of_cell(const testing::TestParamInfo<Cell>& info) {
  const auto [zero_stage, dp_size, pipe, tied] = info.param;
  const char* const pipes[] = {"NoPipe", "OneFOneB", "GPipe"};
  return core::concat("Zero", zero_stage, "Dp", dp_size, pipes[static_cast<int>(pipe)],
                      tied ? "Tied" : "Untied");
}

INSTANTIATE_TEST_SUITE_P(
    All, TiersMatrix,
    testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2, 4),
                     testing::Values(Pipe::kNone, Pipe::kOneFOneB, Pipe::kGPipe), testing::Bool()),
    name_of_cell);

TEST(Tiers, ARingOfAnySizeHasTheSameBits) {
  for (const int buffers : {1, 2, 3, 100}) {
    const TrainOptions options =
        with_layout(asleep(canonical_options(true), buffers), 2, Pipe::kOneFOneB);
    EXPECT_EQ(first_difference(reference(true, core::DType::kF32), run_small(options, 2, kSteps)),
              "")
        << buffers;
  }
}

TEST(Tiers, WithoutOverlapTheBitsAreTheSame) {
  TrainOptions options = with_layout(asleep(canonical_options(false)), 3, Pipe::kNone);
  options.offload.reads_ahead = options.offload.writes_behind = false;
  EXPECT_EQ(first_difference(reference(false, core::DType::kF32), run_small(options, 2, kSteps)),
            "");
}

TEST(Tiers, EveryUpdateRuleHasTheSameBits) {
  for (const optim::OptimizerRow* rule : {&optim::kAdamW, &optim::kSgd, &optim::kLion,
                                          &optim::kAdagrad, &optim::kLamb, &optim::kMuon}) {
    for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
      TrainOptions options = canonical_options(true, element);
      options.optimizer = {.rule = rule, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.9};
      options.optimizer.min_coeff = 0.0;
      const RunTrace alone = run_small(options, 1, kSteps);
      for (const int zero_stage : {1, 3}) {
        EXPECT_EQ(first_difference(
                      alone, run_small(with_layout(asleep(options), zero_stage, Pipe::kOneFOneB), 2,
                                       kSteps)),
                  "")
            << rule->name << ", " << core::name_of(element) << ", ZeRO " << zero_stage;
      }
    }
  }
}

// Fetched, and dropped.
TEST(Tiers, ASkippedStepLeavesWhatSleepsAsItWas) {
  for (const core::DType element : {core::DType::kF32, core::DType::kF16}) {
    const auto run = [&](const TrainOptions& options, int ranks) {
      core::arm_faults("point=bwd.layer,step=2,action=nan");
      const RunTrace trace = run_small(options, ranks, kSteps);
      core::arm_faults("");
      return trace;
    };
    const RunTrace alone = run(canonical_options(true, element), 1);
    EXPECT_FALSE(std::isfinite(alone.norms[1]));
    for (const Pipe pipe : {Pipe::kNone, Pipe::kOneFOneB}) {
      for (const int zero_stage : {1, 2, 3}) {
        const TrainOptions options =
            with_layout(asleep(canonical_options(true, element)), zero_stage, pipe);
        EXPECT_EQ(first_difference(alone, run(options, 2)), "") << zero_stage;
      }
    }
  }
}

TEST(Tiers, FrozenParametersAndAdaptersStayInMemory) {
  TrainOptions options = canonical_options(true, core::DType::kBF16);
  options.lora.r = 3;
  options.lora.alpha = 5.0;
  options.lora.targets = {"all-linear"};
  const RunTrace alone = run_small(options, 1, kSteps);
  for (const int zero_stage : {1, 3}) {
    EXPECT_EQ(
        first_difference(
            alone, run_small(with_layout(asleep(options), zero_stage, Pipe::kOneFOneB), 2, kSteps)),
        "")
        << zero_stage;
  }
}

TEST(Tiers, FastSumsHaveTheBitsOfTheSameLayoutInMemory) {
  TrainOptions options = with_layout(canonical_options(false), 2, Pipe::kNone);
  options.sum_order = core::SumOrder::kFast;
  EXPECT_EQ(first_difference(run_small(options, 2, kSteps), run_small(asleep(options), 2, kSteps)),
            "");
}

}  // namespace
}  // namespace fm::engine
