// The canonical order keeps its promise (docs/numbers.md, "Order of sums") where only a part of the
// parameters is trained.
#include <gtest/gtest.h>

#include "comm/meet/world.h"
#include "engine/state/persistence.h"
#include "schedule_rows.h"
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

// Nothing is trained in the lower layers, which have no backward.
struct Upper {
  const char* train;
  const char* freeze;
  int checkpoint_interval = 1;
  bool recompute = false;
  bool post_validation = false;
};
// By ZeRO stage. 9 layers: the lowest trained one is inside of a chunk or its first; the head
// alone.
constexpr Upper kUpper[] = {{"", "embed_tokens|layers\\.[0-4]\\."},
                            {"", "embed_tokens|layers\\.[0-3]\\.", 3, true},
                            {"layers\\.[78]\\.mlp|lm_head", "", 1, false, true},
                            {"lm_head", ""}};

TrainOptions options_of(int zero_stage) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_upper_layers", false, {9, 24, 3, 1, 40});
  options.max_seq_len = 5;
  const Upper& upper = kUpper[zero_stage];
  options.train = upper.train;
  options.freeze = upper.freeze;
  options.recompute = upper.recompute;
  options.checkpoint_interval = upper.checkpoint_interval;
  options.post_validation = upper.post_validation;
  options.zero_stage = zero_stage;
  return options;
}

const RunTrace& one_rank(int zero_stage) {
  static const std::vector<RunTrace> runs = [] {
    std::vector<RunTrace> out;
    for (int each = 0; each < 4; ++each) out.push_back(run_small(options_of(each), 1, kSteps));
    return out;
  }();
  return runs[static_cast<std::size_t>(zero_stage)];
}

class UpperLayers : public testing::TestWithParam<const pipeline::ScheduleRow*> {};

INSTANTIATE_TEST_SUITE_P(All, UpperLayers, testing::ValuesIn(every_schedule()),
                         [](const auto& at) { return test_name(*at.param); });

struct Ranks {
  int pipe, data;
};

TEST_P(UpperLayers, HaveTheBitsOfOneRank) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const auto& [pipe, data] : {Ranks{2, 1}, Ranks{4, 1}, Ranks{2, 2}}) {
      TrainOptions options = options_of(zero_stage);
      options.schedule = GetParam();
      options.pipe_parallel_size = pipe;
      options.shared_memory = data == 1;
      SCOPED_TRACE(core::concat("ZeRO ", zero_stage, ", ", pipe, " pipe ranks, ", data, " data"));
      EXPECT_EQ(first_difference(one_rank(zero_stage), run_small(options, data, kSteps)), "");
    }
  }
}

TEST_P(UpperLayers, TakeExactlyTheBuffersOfTheirPlan) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    TrainOptions options = options_of(zero_stage);
    options.schedule = GetParam();
    options.pipe_parallel_size = 4;
    after_one_step(options, [&](const RankState& state) {
      const pipeline::ActivationPeaks peaks =
          activation_peaks(state.plan.train[static_cast<std::size_t>(state.at.pipe_rank)],
                           state.plan.units(), options.recompute);
      const pipeline::ActivationPeaks& there = state.pools.peaks;  // for evaluations, too
      EXPECT_EQ(there.kept - state.kept.unused(), peaks.kept) << zero_stage;
      EXPECT_EQ(there.parked - state.parked.unused(), peaks.parked) << zero_stage;
      EXPECT_EQ(there.hidden - state.hidden.unused(), peaks.hidden) << zero_stage;
    });
  }
}

}  // namespace
}  // namespace fm::engine
