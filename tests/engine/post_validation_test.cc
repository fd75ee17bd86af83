// Steps that end before the norm of all pipe ranks is known have the bits of steps that wait for
// it, whether their updates stay or are undone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/fault.h"
#include "schedule_rows.h"
#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 4;

// 9 layers: 4 pipe ranks with 2 chunks have chunks of 2 and of 1.
TrainOptions options_of(bool tied, double clipping) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_post_validation", tied, {9, 24, 3, 1, 40});
  options.max_seq_len = 5;
  options.gradient_clipping = clipping;
  return options;
}

const RunTrace& one_rank(bool tied, double clipping) {
  static std::map<std::pair<bool, double>, RunTrace> runs;
  const auto [at, fresh] = runs.try_emplace({tied, clipping});
  if (fresh) at->second = run_small(options_of(tied, clipping), 1, kSteps);
  return at->second;
}

// A threshold between the norms of a run that is clipped at it: some steps are clipped.
double threshold_between_norms(bool tied) {
  static std::map<bool, double> found;
  const auto [at, fresh] = found.try_emplace(tied, 0.0);
  if (!fresh) return at->second;
  for (double clipping = 8.0; clipping > 1e-3; clipping *= 0.97) {
    const std::vector<double>& norms = one_rank(tied, clipping).norms;
    const auto clips = [&](double norm) { return norm > clipping; };
    const auto clipped = std::ranges::count_if(norms.begin(), norms.end() - 1, clips);
    if (clipped > 0 && clipped < kSteps - 1) return at->second = clipping;
  }
  return 0.0;
}

TrainOptions ahead(TrainOptions options, int pipe_ranks) {
  options.pipe_parallel_size = pipe_ranks;
  options.post_validation = true;
  return options;
}

int redone(const RunTrace& run) { return static_cast<int>(std::ranges::count(run.redone, true)); }

// Steps behind which another validates, and whose update is not what was done ahead.
int clipped_of(const RunTrace& run, double clipping) {
  return static_cast<int>(std::count_if(run.norms.begin(), run.norms.end() - 1, [&](double norm) {
    return !std::isfinite(norm) || (clipping > 0.0 && clipping / (norm + 1e-6) < 1.0);
  }));
}

struct Ranks {
  int pipe = 2;
  int data = 1;
};
constexpr Ranks kRanks[] = {{2, 1}, {4, 1}, {2, 2}};

using Cell = std::tuple<const pipeline::ScheduleRow*, int>;  // ZeRO stage
class PostValidationMatrix : public testing::TestWithParam<Cell> {};

INSTANTIATE_TEST_SUITE_P(All, PostValidationMatrix,
                         testing::Combine(testing::ValuesIn(every_schedule()),
                                          testing::Range(0, 4)),
                         [](const auto& cell) {
                           return test_name(*std::get<0>(cell.param)) + "Zero" +
                                  std::to_string(std::get<1>(cell.param));
                         });

// Nothing clipped: every update stays. Some steps clipped: theirs are undone, the others stay.
TEST_P(PostValidationMatrix, HasTheBitsOfOneRank) {
  const auto [row, zero_stage] = GetParam();
  for (const Ranks& ranks : kRanks) {
    const bool tied = (zero_stage + ranks.pipe / 2 + ranks.data) % 2 == 0;
    const double between = threshold_between_norms(tied);
    ASSERT_GT(between, 0.0);
    for (const double clipping : {0.0, between}) {
      TrainOptions options = ahead(options_of(tied, clipping), ranks.pipe);
      options.schedule = row;
      options.zero_stage = zero_stage;
      options.recompute = zero_stage == 1;
      options.shared_memory = zero_stage != 3;
      SCOPED_TRACE(core::concat(ranks.pipe, " pipe ranks, ", ranks.data, " data ranks, clipping ",
                                clipping));
      const RunTrace run = run_small(options, ranks.data, kSteps);
      EXPECT_EQ(first_difference(one_rank(tied, clipping), run), "");
      EXPECT_EQ(redone(run), clipped_of(run, clipping));
    }
  }
}

// A threshold just below the norm of the last step but one: the first pipe rank's part is below it,
// so that it updates, and the update is undone. One far below: no rank but the last updates ahead.
TEST(PostValidation, UndoesAnUpdateThatOnlyTheWholeNormRefutes) {
  const double norm = one_rank(false, 0.0).norms[0];
  for (const double clipping : {0.999 * norm, 1e-4}) {
    const RunTrace run = run_small(ahead(options_of(false, clipping), 4), 1, kSteps);
    EXPECT_EQ(first_difference(one_rank(false, clipping), run), "") << clipping;
    EXPECT_EQ(redone(run), clipped_of(run, clipping));
    EXPECT_GT(redone(run), 0);
  }
}

// A gradient that is not a number, on each pipe rank in turn: the step is left out everywhere, and
// the ranks before it, which have updated by then, take that back.
TEST(PostValidation, LeavesOutAStepThatIsNotFinite) {
  for (const bool narrow : {false, true}) {
    for (int rank = 0; rank < 4; ++rank) {
      for (const int zero_stage : {0, 2, 3}) {
        SCOPED_TRACE(core::concat("rank ", rank, ", ZeRO ", zero_stage, narrow ? ", bf16" : ""));
        TrainOptions options = options_of(rank % 2 == 0, 0.0);
        if (narrow) options.element = core::DType::kBF16;
        core::arm_faults("point=bwd.layer,step=2,action=nan");
        const RunTrace alone = run_small(options, 1, kSteps);
        EXPECT_TRUE(std::isnan(alone.norms[1]));
        core::arm_faults(core::concat("point=bwd.layer,step=2,action=nan,rank=", rank));
        options.zero_stage = zero_stage;
        const RunTrace run = run_small(ahead(options, 4), 1, kSteps);
        core::arm_faults("");
        EXPECT_EQ(first_difference(alone, run), "");
        EXPECT_EQ(run.redone, (std::vector<bool>{false, true, false, false}));
      }
    }
  }
}

// What is set aside of a parameter are its fp32 value and both moments of AdamW: beside these two,
// and in bf16 the master, half as much again and as much again. The last pipe rank undoes nothing.
TEST(PostValidation, KeepsOneCopyOfParametersAndMoments) {
  for (const bool narrow : {false, true}) {
    TrainOptions options = options_of(false, 0.0);
    if (narrow) options.element = core::DType::kBF16;
    options.pipe_parallel_size = 3;
    options.zero_stage = 1;
    const model::OpenedModel opened = open_run_model(options);
    const RunPlan meeting = make_run_plan(options, opened.model, {6});
    options.post_validation = true;
    const RunPlan plan = make_run_plan(options, opened.model, {6});
    for (int rank = 0; rank < 3; ++rank) {
      const std::int64_t before = meeting.memory(rank).optimizer.count();
      const std::int64_t copy = rank == 2 ? 0 : (narrow ? before : before / 2 * 3);
      EXPECT_EQ(plan.memory(rank).optimizer.count() - before, copy) << rank;
      EXPECT_GT(before, 0);
    }
  }
}

// The same layout with and without: also in fast order, in narrow types, with optimizers that write
// over gradients, with tensor-parallel ranks, and in a pipe between hosts.
struct Variant {
  const char* name;
  void (*change)(TrainOptions&);
};
constexpr Variant kVariants[] = {
    {"Fast", [](TrainOptions& o) { o.sum_order = core::SumOrder::kFast; }},
    {"Bf16", [](TrainOptions& o) { o.element = core::DType::kBF16; }},
    {"Fp16",
     [](TrainOptions& o) {
       o.element = core::DType::kF16;
       o.loss_scale = {.first = 1024.0};
     }},
    {"Lamb", [](TrainOptions& o) { o.optimizer.rule = &optim::kLamb; }},
    {"Muon", [](TrainOptions& o) { o.optimizer.rule = &optim::kMuon; }},
    {"Sgd", [](TrainOptions& o) { o.optimizer.rule = &optim::kSgd; }},
    {"MeanOfMeans", [](TrainOptions& o) { o.loss_reduction = LossReduction::kMeanOfMeans; }},
    {"TensorParallel",
     [](TrainOptions& o) {
       o = small_options(testing::TempDir() + "/fm_post_validation", true);
       o.model_parallel_size = 2;
     }},
    {"Lora", [](TrainOptions& o) { o.lora.r = 3; }},
    {"BetweenHosts", [](TrainOptions& o) { o.shared_memory = false; }},
    {"ByPhase",
     [](TrainOptions& o) {
       o.shared_memory = false;
       o.regather = core::Regather::kPhase;
     }},
    {"OncePerStep", [](TrainOptions& o) { o.reductions = core::Reductions::kOncePerStep; }},
};
class PostValidationVariants : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(All, PostValidationVariants, testing::ValuesIn(kVariants),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(PostValidationVariants, ChangesNoBitOfTheSameLayout) {
  int kept = 0;
  int undone = 0;
  for (const int zero_stage : {0, 1, 2, 3}) {
    TrainOptions options = options_of(true, 0.0);
    options.schedule = &schedule_named("zb-h2");
    GetParam().change(options);
    options.zero_stage = zero_stage;
    options.pipe_parallel_size = 2;
    options.gradient_clipping = 0.0;
    const int data = options.model_parallel_size == 1 ? 2 : 1;
    const double norm = run_small(options, data, 1).norms[0];
    for (const double clipping : {0.0, 0.999 * norm}) {
      options.gradient_clipping = clipping;
      const RunTrace meeting = run_small(options, data, kSteps);
      const RunTrace run = run_small(ahead(options, 2), data, kSteps);
      EXPECT_EQ(first_difference(meeting, run), "") << "ZeRO " << zero_stage;
      EXPECT_EQ(redone(run), clipped_of(meeting, clipping));
      undone += redone(run);
      kept += kSteps - 1 - redone(run);
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(undone, 0);
}

}  // namespace
}  // namespace fm::engine
