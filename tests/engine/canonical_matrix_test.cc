// The promise of the canonical order (docs/numbers.md, "Order of sums"): ZeRO stage, data ranks,
// pipeline schedule and recomputation change no bit of losses, norms and weights.
#include <gtest/gtest.h>

#include <tuple>

#include "core/text.h"
#include "document_rows.h"
#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 5;

enum class Pipe : std::uint8_t { kNone, kOneFOneB, kGPipe };

TrainOptions canonical_options(bool tied, core::DType element = core::DType::kF32) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_canonical", tied);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  return options;
}

const RunTrace& reference(bool tied) {
  static const RunTrace untied_run = run_small(canonical_options(false), 1, kSteps);
  static const RunTrace tied_run = run_small(canonical_options(true), 1, kSteps);
  return tied ? tied_run : untied_run;
}
const RunTrace& reference_in(core::DType element) {
  static const RunTrace bf16 = run_small(canonical_options(true, core::DType::kBF16), 1, kSteps);
  static const RunTrace fp16 = run_small(canonical_options(true, core::DType::kF16), 1, kSteps);
  return element == core::DType::kBF16 ? bf16 : fp16;
}

using Cell = std::tuple<int, int, Pipe, bool, bool>;  // zero, dp, pipe, recompute, tied
class CanonicalMatrix : public testing::TestWithParam<Cell> {};
class CanonicalMatrixInNarrowTypes : public testing::TestWithParam<Cell> {};

void expect_equal(const Cell& cell, TrainOptions options, const RunTrace& expected) {
  const auto [zero_stage, dp_size, pipe, recompute, tied] = cell;
  options.zero_stage = zero_stage;
  options.recompute = recompute;
  options.pipe_parallel_size = pipe == Pipe::kNone ? 1 : 2;
  options.schedule = &schedule_named(pipe == Pipe::kGPipe ? "gpipe" : "1f1b");
  for (const bool shared_memory : {true, false}) {
    if (recompute && !shared_memory) continue;  // recomputation says nothing to other ranks
    SCOPED_TRACE(shared_memory ? "shared memory" : "messages");
    options.shared_memory = shared_memory;
    const RunTrace trace = run_small(options, dp_size, kSteps);
    ASSERT_EQ(trace.losses.size(), static_cast<std::size_t>(kSteps));
    EXPECT_EQ(first_difference(expected, trace), "");
  }
}

TEST_P(CanonicalMatrix, EqualsOneRankBitForBit) {
  const bool tied = std::get<4>(GetParam());
  expect_equal(GetParam(), canonical_options(tied), reference(tied));
}

TEST_P(CanonicalMatrixInNarrowTypes, EqualsOneRankBitForBit) {
  for (const core::DType element : {core::DType::kBF16, core::DType::kF16}) {
    SCOPED_TRACE(core::name_of(element));
    expect_equal(GetParam(), canonical_options(true, element), reference_in(element));
  }
}

std::string name_of_cell(const testing::TestParamInfo<Cell>& info) {
  const auto [zero_stage, dp_size, pipe, recompute, tied] = info.param;
  const char* const pipes[] = {"NoPipe", "OneFOneB", "GPipe"};
  return "Zero" + std::to_string(zero_stage) + "Dp" + std::to_string(dp_size) +
         pipes[static_cast<int>(pipe)] + (recompute ? "Recompute" : "Keep") +
         (tied ? "Tied" : "Untied");
}

INSTANTIATE_TEST_SUITE_P(All, CanonicalMatrix,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 4),
                                          testing::Values(Pipe::kNone, Pipe::kOneFOneB,
                                                          Pipe::kGPipe),
                                          testing::Bool(), testing::Bool()),
                         name_of_cell);

INSTANTIATE_TEST_SUITE_P(All, CanonicalMatrixInNarrowTypes,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 4),
                                          testing::Values(Pipe::kNone, Pipe::kOneFOneB),
                                          testing::Values(false), testing::Values(true)),
                         name_of_cell);

TEST(CanonicalMatrix, EightDataRanksEqualOne) {
  TrainOptions options = canonical_options(false);
  options.batch = {8, 1, {}};
  const RunTrace alone = run_small(options, 1, 3);
  for (const int zero_stage : {0, 1, 2, 3}) {
    options.zero_stage = zero_stage;
    EXPECT_EQ(first_difference(alone, run_small(options, 8, 3)), "") << "ZeRO " << zero_stage;
  }
}

// 8 samples on 3 data ranks (3, 3, 2), on 5 (2, 2, 2, 1, 1), and 9 on 2 and on 3: any step that has
// a micro-batch for every rank.
using Uneven = std::tuple<int, int, bool, int>;  // zero, pipe ranks, tied, kind
class UnevenMatrix : public testing::TestWithParam<Uneven> {};

const char* const kUnevenKinds[] = {"Fp32", "Bf16", "Fp16Recompute", "Documents", "Lora", "Means"};

TrainOptions uneven_options(bool tied, int kind) {
  TrainOptions options = canonical_options(tied);
  options.batch = {8, 1, {}};
  if (kind == 1) options.element = core::DType::kBF16;
  if (kind == 2) {
    options.element = core::DType::kF16;
    options.loss_scale = {.first = 4096.0};
    options.recompute = true;
  }
  options.document_attention = kind == 3;
  if (kind == 4) {
    options.lora.r = 3;
    options.lora.alpha = 5.0;
    options.lora.dropout = 0.3;
    options.lora.targets = {"all-linear"};
  }
  if (kind == 5) options.loss_reduction = LossReduction::kMeanOfMeans;
  return options;
}

TEST_P(UnevenMatrix, EqualsOneRankBitForBit) {
  const auto [zero_stage, pipe, tied, kind] = GetParam();
  TrainOptions options = uneven_options(tied, kind);
  const DocumentRows documents;
  const DocumentRows* const rows = options.document_attention ? &documents : nullptr;
  const auto run = [&](const TrainOptions& of, int dp_size) {
    return run_small(of, dp_size, 3, rows);
  };
  const RunTrace alone = run(options, 1);
  options.zero_stage = zero_stage;
  options.pipe_parallel_size = pipe;
  for (const bool shared_memory : {true, false}) {
    options.shared_memory = shared_memory;
    EXPECT_EQ(first_difference(alone, run(options, 3)), "") << shared_memory;
  }
  if (kind > 0) return;
  if (pipe == 1) {
    EXPECT_EQ(first_difference(alone, run(options, 5)), "");
  }
  options.batch = {9, 1, {}};
  TrainOptions nine = uneven_options(tied, kind);
  nine.batch = options.batch;
  const RunTrace alone_nine = run(nine, 1);
  EXPECT_EQ(first_difference(alone_nine, run(options, 2)), "");
  EXPECT_EQ(first_difference(alone_nine, run(options, 3)), "");
}

std::string name_of_uneven(const testing::TestParamInfo<Uneven>& info) {
  const auto [zero_stage, pipe, tied, kind] = info.param;
  return core::concat("Zero", zero_stage, "Pipe", pipe, tied ? "Tied" : "Untied",
                      kUnevenKinds[kind]);
}

INSTANTIATE_TEST_SUITE_P(All, UnevenMatrix,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2),
                                          testing::Bool(), testing::Range(0, 6)),
                         name_of_uneven);

TEST(UnevenRuns, EverySchedulePassesEmptyMicroBatches) {
  const RunTrace alone = run_small(uneven_options(true, 0), 1, 3);
  for (const char* schedule : {"gpipe", "zb-h1"}) {
    for (const int zero_stage : {1, 3}) {
      TrainOptions options = uneven_options(true, 0);
      options.pipe_parallel_size = 2;
      options.schedule = &schedule_named(schedule);
      options.zero_stage = zero_stage;
      options.post_validation = zero_stage == 1 && options.schedule->name == "zb-h1";
      EXPECT_EQ(first_difference(alone, run_small(options, 3, 3)), "") << schedule << zero_stage;
    }
  }
}

TEST(UnevenRuns, OptimizersThatSeeWholeTensorsKeepTheirBits) {
  for (const optim::OptimizerRow* rule : {&optim::kLamb, &optim::kMuon}) {
    TrainOptions options = uneven_options(true, 0);
    options.optimizer = {.rule = rule, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.9};
    options.optimizer.min_coeff = 0.0;
    const RunTrace alone = run_small(options, 1, 3);
    for (const int zero_stage : {0, 3}) {
      options.zero_stage = zero_stage;
      EXPECT_EQ(first_difference(alone, run_small(options, 3, 3)), "") << rule->name << zero_stage;
    }
  }
}

// A row on two sequence ranks, 8 rows on 3 pairs of ranks: the bits of one pair.
TEST(UnevenRuns, SequenceRanksBesideItKeepTheirBits) {
  TrainOptions options = uneven_options(false, 0);
  options.sequence_parallel_size = 2;
  const RunTrace pair = run_small(options, 1, 3);
  for (const int zero_stage : {0, 1, 2, 3}) {
    options.zero_stage = zero_stage;
    EXPECT_EQ(first_difference(pair, run_small(options, 3, 3)), "") << zero_stage;
  }
}

TEST(UnevenRuns, TensorRanksBesideItKeepTheirBits) {
  TrainOptions options = uneven_options(false, 0);
  options.model_parallel_size = 2;
  const RunTrace pair = run_small(options, 1, 3);
  for (const int zero_stage : {0, 3}) {
    options.zero_stage = zero_stage;
    EXPECT_EQ(first_difference(pair, run_small(options, 3, 3)), "") << zero_stage;
  }
}

// What is kept, gathered or made again, and when, changes no bit.
TEST(CanonicalMatrix, ChoicesOfMemoryKeepTheBits) {
  for (const bool tied : {false, true}) {
    for (const int zero_stage : {2, 3}) {
      for (const Pipe pipe : {Pipe::kNone, Pipe::kOneFOneB, Pipe::kGPipe}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(pipe)) + (tied ? " tied" : " untied"));
        TrainOptions options = canonical_options(tied);
        options.regather = core::Regather::kPhase;
        expect_equal({zero_stage, 2, pipe, false, tied}, options, reference(tied));
        options.reductions = core::Reductions::kOncePerStep;
        options.checkpoint_interval = zero_stage;
        expect_equal({zero_stage, 2, pipe, true, tied}, options, reference(tied));
      }
    }
  }
}

TEST(CanonicalMatrix, EveryRuleKeepsItsBits) {
  for (const optim::OptimizerRow* rule :
       {&optim::kLion, &optim::kAdagrad, &optim::kLamb, &optim::kMuon, &optim::kSgd}) {
    TrainOptions options = canonical_options(true);
    options.optimizer = {.rule = rule, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.9};
    options.optimizer.min_coeff = 0.0;  // or it would be every tensor's ratio
    const RunTrace alone = run_small(options, 1, kSteps);
    EXPECT_NE(alone.losses.front(), alone.losses.back());
    for (const int zero_stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(rule->name) + ", ZeRO " + std::to_string(zero_stage));
      expect_equal({zero_stage, 2, Pipe::kOneFOneB, false, true}, options, alone);
    }
  }
}

TEST(CanonicalMatrix, NarrowTypesAreNotFp32) {
  EXPECT_NE(reference_in(core::DType::kBF16).losses, reference(true).losses);
  EXPECT_NE(reference_in(core::DType::kF16).losses, reference(true).losses);
  EXPECT_NE(reference_in(core::DType::kF16).losses, reference_in(core::DType::kBF16).losses);
}

TEST(CanonicalMatrix, TheReferenceLearnsAndClips) {
  for (const bool tied : {false, true}) {
    const RunTrace& run = reference(tied);
    EXPECT_NEAR(run.losses.front(), 6.655, 0.1);  // ln 777
    EXPECT_NE(run.losses.front(), run.losses.back());
    for (const double norm : run.norms) EXPECT_GT(norm, 0.05);  // the clipping threshold
  }
}

}  // namespace
}  // namespace fm::engine
