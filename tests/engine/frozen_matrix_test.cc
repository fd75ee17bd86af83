// The canonical order keeps its promise (docs/numbers.md, "Order of sums") where only a part of the
// parameters is trained.
#include <gtest/gtest.h>

#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

struct Choice {
  const char* train;
  const char* freeze;
  bool tied;
  core::DType element = core::DType::kF32;
};

class PartlyTrained : public testing::TestWithParam<Choice> {};

TEST_P(PartlyTrained, EqualsOneRankBitForBit) {
  const Choice& choice = GetParam();
  TrainOptions options = small_options(testing::TempDir() + "/fm_partly_trained", choice.tied);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = choice.element;
  options.train = choice.train;
  options.freeze = choice.freeze;
  const RunTrace alone = run_small(options, 1, kSteps);
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int pipe_ranks : {1, 2}) {
      for (const bool shared_memory : {true, false}) {
        SCOPED_TRACE(testing::Message() << "ZeRO " << zero_stage << ", pipe ranks " << pipe_ranks
                                        << ", shared memory " << shared_memory);
        options.zero_stage = zero_stage;
        options.pipe_parallel_size = pipe_ranks;
        options.shared_memory = shared_memory;
        options.recompute = shared_memory;
        EXPECT_EQ(first_difference(alone, run_small(options, 2, kSteps)), "");
      }
    }
  }
}

// Parts of units, units without anything trained, the tied matrix trained and frozen.
INSTANTIATE_TEST_SUITE_P(All, PartlyTrained,
                         testing::Values(Choice{"", "norm|q_proj|down_proj", true},
                                         Choice{"layers", "", true},
                                         Choice{"layers\\.[13]\\.mlp", "", false},
                                         Choice{"embed_tokens", "", true},
                                         Choice{"mlp", "", true, core::DType::kBF16}));

}  // namespace
}  // namespace fm::engine
