// Every schedule trains: losses, norms and weights of pipes with 2 and 4 ranks are those of one
// rank, bit for bit in the canonical order, under every ZeRO stage; and a step takes exactly the
// buffers that its plan counted.
#include <gtest/gtest.h>

#include <tuple>

#include "comm/meet/world.h"
#include "engine/plan/auto_schedule.h"
#include "engine/plan/plan_simulation.h"
#include "engine/plan/schedule_account.h"
#include "engine/state/persistence.h"
#include "pipeline/schedule_study.h"
#include "schedule_rows.h"
#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 2;

// 9 layers: 4 pipe ranks with 2 chunks have chunks of 2 and of 1.
TrainOptions options_of(bool tied) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_schedules", tied, {9, 24, 3, 1, 40});
  options.max_seq_len = 5;
  return options;
}

const RunTrace& one_rank(bool tied) {
  static const RunTrace untied_run = run_small(options_of(false), 1, kSteps);
  static const RunTrace tied_run = run_small(options_of(true), 1, kSteps);
  return tied ? tied_run : untied_run;
}

struct Ranks {
  int pipe = 2;
  int data = 1;
};
constexpr Ranks kRanks[] = {{2, 1}, {4, 1}, {2, 2}};

using Cell = std::tuple<const pipeline::ScheduleRow*, int>;  // ZeRO stage
class ScheduleMatrix : public testing::TestWithParam<Cell> {};

std::string name_of(const testing::TestParamInfo<Cell>& cell) {
  return test_name(*std::get<0>(cell.param)) + "Zero" + std::to_string(std::get<1>(cell.param));
}
INSTANTIATE_TEST_SUITE_P(All, ScheduleMatrix,
                         testing::Combine(testing::ValuesIn(every_schedule()),
                                          testing::Range(0, 4)),
                         name_of);

TEST_P(ScheduleMatrix, HasTheBitsOfOneRank) {
  const auto [row, zero_stage] = GetParam();
  for (const Ranks& ranks : kRanks) {
    const bool tied = (zero_stage + ranks.pipe / 2 + ranks.data) % 2 == 0;
    TrainOptions options = options_of(tied);
    options.schedule = row;
    options.zero_stage = zero_stage;
    options.pipe_parallel_size = ranks.pipe;
    options.recompute = zero_stage == 1;
    options.shared_memory = zero_stage != 3;
    SCOPED_TRACE(core::concat(ranks.pipe, " pipe ranks, ", ranks.data, " data ranks"));
    EXPECT_EQ(first_difference(one_rank(tied), run_small(options, ranks.data, kSteps)), "");
  }
}

TEST(ScheduleMatrixOfChunks, OneAndThreeChunksPerRankHaveTheBitsOfOneRank) {
  for (const char* name : {"interleaved-1f1b", "looped-bfs", "interleaved-zb"}) {
    for (const int chunks : {1, 3}) {
      TrainOptions options = options_of(true);
      options.schedule = &schedule_named(name);
      options.virtual_stages = chunks;
      options.zero_stage = chunks;
      options.pipe_parallel_size = 3;
      SCOPED_TRACE(core::concat(name, ", ", chunks));
      EXPECT_EQ(first_difference(one_rank(true), run_small(options, 1, kSteps)), "");
    }
  }
}

TEST(ScheduleMatrixOfChunks, TheReferenceLearnsAndClips) {
  for (const bool tied : {false, true}) {
    const RunTrace& run = one_rank(tied);
    EXPECT_NE(run.losses.front(), run.losses.back());
    for (const double norm : run.norms) EXPECT_GT(norm, 0.05);  // the clipping threshold
  }
}

// Fewer micro-batches than pipe ranks, and a number that no group divides.
TEST(ScheduleMatrixOfMicros, AnyNumberOfMicrosHasTheBitsOfOneRank) {
  for (const int micros : {1, 3}) {
    TrainOptions options = options_of(false);
    options.batch = {micros, 1, {}};
    const RunTrace alone = run_small(options, 1, kSteps);
    options.pipe_parallel_size = 4;
    options.zero_stage = 2;
    for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
      if (row.constraint.holds != nullptr) continue;
      SCOPED_TRACE(core::concat(row.name, ", ", micros, " micro-batches"));
      options.schedule = &row;
      EXPECT_EQ(first_difference(alone, run_small(options, 1, kSteps)), "");
    }
  }
}

pipeline::OwnSchedule own_schedule(const std::string& rows) {
  return pipeline::read_schedule_csv(rows, "own.csv");
}

// Stages 0 and 2 on rank 0, 1 on rank 1, and an order that no generator has.
TEST(OwnSchedules, TrainWithTheBitsOfOneRank) {
  TrainOptions options = options_of(true);
  options.batch = {2, 1, {}};
  const RunTrace alone = run_small(options, 1, kSteps);
  options.own_schedule = std::make_shared<pipeline::OwnSchedule>(
      own_schedule("0F0,,0F1,2F0,2I0,2F1,2I1,2W0,2W1,0I1,0I0,0W0,0W1\n1F0,1F1,1I1,1B0,1W1\n"));
  options.pipe_parallel_size = 2;
  for (const int zero_stage : {0, 3}) {
    options.zero_stage = zero_stage;
    EXPECT_EQ(first_difference(alone, run_small(options, 1, kSteps)), "") << zero_stage;
  }
}

TEST(OwnSchedules, AreRefusedWhereTheyDoNotFitTheRun) {
  TrainOptions options = options_of(false);
  options.batch = {2, 1, {}};
  options.pipe_parallel_size = 2;
  const model::OpenedModel opened = open_run_model(options);
  const auto refused = [&](const std::string& rows) -> std::string {
    options.own_schedule = std::make_shared<pipeline::OwnSchedule>(own_schedule(rows));
    try {
      make_run_plan(options, opened.model, {2});
    } catch (const core::UserError& error) {
      return error.what();
    }
    return "";
  };
  const std::string newest_first = "0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n";
  EXPECT_NE(refused(newest_first).find("in the order of micro-batches"), std::string::npos);
  EXPECT_NE(refused("0F0,0B0,1F0,1B0\n").find("a row for each pipe rank"), std::string::npos);
  EXPECT_NE(refused("0F0,0B0\n1F0,1B0\n").find("2 rows, 1 micro-batches"), std::string::npos);
  options.sum_order = core::SumOrder::kFast;
  EXPECT_EQ(refused(newest_first), "");
}

TEST(Partitions, EveryCutHasTheBitsOfOneRank) {
  struct Case {
    const char* method;
    int pipe;
  };
  for (const auto& [method, pipe] :
       {Case{"uniform", 4}, Case{"parameters", 2}, Case{"type:Layer|Head", 4}, Case{"0,5,2,2", 4},
        Case{"6,1,1,1", 4}}) {
    TrainOptions options = options_of(true);
    options.partition = pipeline::partition_named(method);
    options.pipe_parallel_size = pipe;
    options.zero_stage = 2;
    options.schedule = &schedule_named("zb-h1");
    EXPECT_EQ(first_difference(one_rank(true), run_small(options, 1, kSteps)), "") << method;
  }
}

TEST(AutoSchedule, TakesTheFastestThatFits) {
  TrainOptions options = options_of(false);
  options.auto_schedule = true;
  options.pipe_parallel_size = 4;
  const model::OpenedModel opened = open_run_model(options);
  const auto chosen = [&](const std::function<bool(const RunPlan&)>& fits) {
    return with_schedule(options, opened.model, {4}, fits);
  };
  const auto makespan = [&](const TrainOptions& of) {
    return simulate_plan(make_run_plan(of, opened.model, {4})).makespan;
  };
  const TrainOptions best = chosen([](const RunPlan&) { return true; });
  TrainOptions each = options;
  each.auto_schedule = false;
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
    each.schedule = &row;
    EXPECT_LE(makespan(best), makespan(each) * 1.000001) << row.name;
  }
  const auto kept = [](const RunPlan& plan) {
    return std::ranges::max(pipeline::peak_activations(plan.scheduled, plan.pipe));
  };
  const TrainOptions small = chosen([&](const RunPlan& plan) { return kept(plan) <= 3.0; });
  EXPECT_LE(kept(make_run_plan(small, opened.model, {4})), 3.0);
  EXPECT_GE(makespan(small), makespan(best));
  const TrainOptions least = chosen([](const RunPlan&) { return false; });
  EXPECT_EQ(least.schedule->name, "v-min");
}

TEST(ScheduleAccounts, SayWhatAStepTakes) {
  TrainOptions options = options_of(false);
  options.pipe_parallel_size = 2;
  options.plan_times = pipeline::PhaseCosts{};
  const ScheduleStudy study = study_schedule(options, 4);
  EXPECT_EQ(study.account.makespan, 15.0);  // 3 (m + p - 1)
  EXPECT_EQ(study.account.longest_stage, 15.0);
  EXPECT_NEAR(study.account.bubble, 1.0 / 5, 1e-12);
  EXPECT_EQ(study.account.peak_activations, (std::vector<double>{2, 1}));
  EXPECT_EQ(study.account.instructions[0].at("F").count, 8);  // the embedding and one block
  EXPECT_EQ(study.account.instructions[0].at("sa").count, 4);
  EXPECT_EQ(study.account.time_unit, "given");
  TrainOptions measured = options;
  measured.unit_times = UnitTimes{};
  EXPECT_EQ(study_schedule(measured, 4).account.time_unit, "us");
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, {2});
  const ScheduleAccount account = account_of(options, plan);
  EXPECT_EQ(account.instructions[0].at("sa").bytes.count(), 8 * 5 * 24 * 4);  // m x T x D fp32
  EXPECT_NEAR(account.makespan, 27.0, 1e-9);  // 3 (8 + 1): a rank's share is its whole time
}

TEST(ScheduleMemory, AStepTakesExactlyTheBuffersOfItsPlan) {
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
    TrainOptions options = options_of(true);
    options.schedule = &row;
    options.pipe_parallel_size = 4;
    options.zero_stage = 3;
    after_one_step(options, [&](const RankState& state) {
      EXPECT_EQ(state.kept.unused(), 0) << row.name;
      EXPECT_EQ(state.parked.unused(), 0) << row.name;
      EXPECT_EQ(state.hidden.unused(), 0) << row.name;
    });
  }
}

}  // namespace
}  // namespace fm::engine
