// Tensor parallelism in whole steps: with a number of tensor-parallel ranks, ZeRO stage, data
// ranks, pipeline and recomputation change no bit in canonical order; that number itself changes
// the order of sums inside products alone.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <tuple>

#include "model/units/lora.h"
#include "small_run.h"
#include "tests/model/family_jsons.h"

namespace fm::engine {
namespace {

TrainOptions canonical_options(bool tied) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_tensor_matrix", tied);
  options.sum_order = core::SumOrder::kCanonical;
  return options;
}

void expect_near(const RunTrace& alone, const RunTrace& together, double tolerance) {
  ASSERT_EQ(alone.losses.size(), together.losses.size());
  for (std::size_t step = 0; step < alone.losses.size(); ++step) {
    EXPECT_NEAR(together.losses[step], alone.losses[step], tolerance) << "step " << step + 1;
    EXPECT_NEAR(together.norms[step], alone.norms[step], 10.0 * tolerance * alone.norms[step])
        << "step " << step + 1;
  }
}

// Tied; with split tokens.
class TensorMatrix : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(TensorMatrix, LayoutsOfTwoTensorRanksAreBitwiseAlike) {
  TrainOptions options = canonical_options(std::get<0>(GetParam()));
  options.megatron_sequence_parallel = std::get<1>(GetParam());
  options.model_parallel_size = 2;
  const RunTrace alone = run_small(options, 1, 4);
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int dp_size : {1, 2}) {
      for (const int pipe_ranks : {1, 2}) {
        SCOPED_TRACE(testing::Message() << "ZeRO " << zero_stage << ", data " << dp_size
                                        << ", pipe ranks " << pipe_ranks);
        options.zero_stage = zero_stage;
        options.pipe_parallel_size = pipe_ranks;
        options.recompute = zero_stage > 1;
        options.shared_memory = zero_stage % 2 == 0;
        EXPECT_EQ(first_difference(alone, run_small(options, dp_size, 4)), "");
      }
    }
  }
}

TEST_P(TensorMatrix, TenStepsHaveTheLossesAndNormsOfOneProcess) {
  TrainOptions options = canonical_options(std::get<0>(GetParam()));
  const bool split_tokens = std::get<1>(GetParam());
  options.optimizer.lr = 1e-3;
  for (const core::SumOrder order : {core::SumOrder::kCanonical, core::SumOrder::kFast}) {
    options.sum_order = order;
    options.model_parallel_size = 1;
    options.pipe_parallel_size = 1;
    options.zero_stage = 0;
    options.megatron_sequence_parallel = false;
    const RunTrace alone = run_small(options, 1, 10);
    for (const auto& [ranks, pipe_ranks, dp_size, zero_stage] :
         {std::array{2, 1, 1, 0}, {2, 2, 1, 1}, {2, 1, 2, 2}, {2, 1, 2, 3}, {6, 1, 1, 1}}) {
      SCOPED_TRACE(testing::Message() << ranks << " tensor ranks, pipe ranks " << pipe_ranks
                                      << ", data " << dp_size << ", ZeRO " << zero_stage);
      options.model_parallel_size = ranks;
      options.megatron_sequence_parallel = split_tokens && ranks == 2;  // of 16 tokens
      options.pipe_parallel_size = pipe_ranks;
      options.zero_stage = zero_stage;
      expect_near(alone, run_small(options, dp_size, 10), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorMatrix, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& of) {
                           return std::string(std::get<0>(of.param) ? "Tied" : "Untied") +
                                  (std::get<1>(of.param) ? "SplitTokens" : "");
                         });

TEST(TensorRuns, BeginWithTheWeightsOfOneRank) {
  for (const model::FamilyJson& family : model::family_jsons()) {
    TrainOptions options = canonical_options(false);
    options.model_config = testing::TempDir() + "/fm_tensor_matrix/" + family.name + ".json";
    std::ofstream(options.model_config) << family.text;
    options.lora.r = 3;
    options.lora.targets = {model::kAllLinear};
    const RunTrace alone = run_small(options, 1, 0);
    for (const int ranks : {2, 6}) {
      SCOPED_TRACE(testing::Message() << family.name << ", " << ranks << " ranks");
      options.model_parallel_size = ranks;
      EXPECT_EQ(first_difference(alone, run_small(options, 1, 0)), "");
    }
  }
}

TEST(TensorRuns, OfEveryFamilyHaveTheLossesOfOneProcess) {
  for (const model::FamilyJson& family : model::family_jsons()) {
    TrainOptions options = canonical_options(false);
    options.optimizer.lr = 1e-3;
    options.model_config = testing::TempDir() + "/fm_tensor_matrix/" + family.name + ".json";
    std::ofstream(options.model_config) << family.text;
    const RunTrace alone = run_small(options, 1, 4);
    options.zero_stage = 2;
    for (const int ranks : {2, 6}) {
      SCOPED_TRACE(testing::Message() << family.name << ", " << ranks << " ranks");
      options.model_parallel_size = ranks;
      expect_near(alone, run_small(options, ranks == 2 ? 2 : 1, 4), 1e-5);
    }
  }
}

TEST(TensorRuns, WithAdaptersAndDropoutHaveTheLossesOfOneProcess) {
  for (const bool tied : {false, true}) {
    TrainOptions options = canonical_options(tied);
    options.lora.r = 3;
    options.lora.alpha = 5.0;
    options.lora.dropout = 0.3;
    options.lora.targets = {model::kAllLinear};
    const RunTrace alone = run_small(options, 1, 6);
    options.model_parallel_size = 2;
    options.zero_stage = 3;
    options.pipe_parallel_size = 2;
    expect_near(alone, run_small(options, 1, 6), 1e-5);
  }
}

// Lamb's rate of a tensor follows from the norms of all of it. Of 6 ranks 3 have keys and values
// alike, and all have the norms' weights.
TEST(TensorRuns, OfLambHaveTheRatesOfWholeTensors) {
  TrainOptions options = canonical_options(true);
  options.optimizer.rule = &optim::kLamb;
  const RunTrace alone = run_small(options, 1, 6);
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  for (const int ranks : {2, 6}) {
    SCOPED_TRACE(ranks);
    options.model_parallel_size = ranks;
    options.zero_stage = 0;
    const RunTrace together = run_small(options, 1, 6);
    expect_near(alone, together, 1e-5);
    for (const int zero_stage : {1, 3}) {
      options.zero_stage = zero_stage;
      EXPECT_EQ(first_difference(together, run_small(options, ranks == 2 ? 2 : 1, 6)), "");
    }
  }
}

// Narrow numbers are rounded elsewhere; the layouts of two tensor ranks are alike.
TEST(TensorRuns, InNarrowTypesAreNearOneProcessAndBitwiseAlike) {
  for (const core::DType element : {core::DType::kBF16, core::DType::kF16}) {
    SCOPED_TRACE(core::name_of(element));
    TrainOptions options = canonical_options(true);
    options.element = element;
    if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
    const RunTrace alone = run_small(options, 1, 4);
    options.model_parallel_size = 2;
    const RunTrace together = run_small(options, 1, 4);
    for (std::size_t step = 0; step < 4; ++step) {
      EXPECT_NEAR(together.losses[step], alone.losses[step], 2e-2);
    }
    for (const int zero_stage : {1, 2, 3}) {
      options.zero_stage = zero_stage;
      EXPECT_EQ(first_difference(together, run_small(options, 2, 4)), "") << zero_stage;
    }
  }
}

}  // namespace
}  // namespace fm::engine
