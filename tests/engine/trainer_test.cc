// Whole runs through train(): files, resume, evaluation, skips.
#include "engine/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_folder.h"
#include "comm/solo.h"
#include "comm/thread_world.h"
#include "core/check.h"
#include "core/fault.h"
#include "small_run.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("fm_trainer_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    core::arm_faults("");
    fs::remove_all(folder_);
  }

  TrainOptions options(const std::string& output, std::int64_t steps) const {
    TrainOptions out = small_options(folder_.string(), true);
    out.output_dir = (folder_ / output).string();
    out.sum_order = core::SumOrder::kCanonical;
    out.train_steps = steps;
    out.log_steps = 0;
    return out;
  }

  static int run(const TrainOptions& options, int ranks = 1) {
    int code = -1;
    comm::run_ranks(
        ranks,
        [&](comm::Communicator& world) {
          const int mine = train(options, world, RunContext{});
          if (world.rank() == 0) code = mine;
        },
        60'000);
    return code;
  }

  // Step -> text of one field, the last line of a step wins.
  static std::map<int, nlohmann::json> metrics(const TrainOptions& options) {
    std::map<int, nlohmann::json> out;
    std::ifstream file(fs::path(options.output_dir) / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      out[json.at("step")] = json;
    }
    return out;
  }

  fs::path folder_;
};

void expect_equal_steps(const std::map<int, nlohmann::json>& a,
                        const std::map<int, nlohmann::json>& b, int steps) {
  for (int step = 1; step <= steps; ++step) {
    EXPECT_EQ(a.at(step).at("loss"), b.at(step).at("loss")) << "step " << step;
    EXPECT_EQ(a.at(step).at("grad_norm"), b.at(step).at("grad_norm")) << "step " << step;
    EXPECT_EQ(a.at(step).at("lr"), b.at(step).at("lr")) << "step " << step;
  }
}

TEST_F(TrainerTest, ResumesAtAnotherStageAndSizeBitForBit) {
  TrainOptions whole = options("whole", 6);
  whole.scheduler.kind = SchedulerKind::kWarmup;
  whole.scheduler.warmup_num_steps = 4;
  ASSERT_EQ(run(whole), 0);

  TrainOptions part = whole;
  part.output_dir = (folder_ / "part").string();
  part.train_steps = 2;
  part.zero_stage = 3;
  ASSERT_EQ(run(part, 2), 0);
  part.train_steps = 4;
  part.zero_stage = 1;
  part.pipe_parallel_size = 2;
  part.resume = checkpoint::Resume::kMust;
  ASSERT_EQ(run(part, 4), 0);
  part.train_steps = 6;
  part.zero_stage = 2;
  part.pipe_parallel_size = 1;
  ASSERT_EQ(run(part, 4), 0);
  expect_equal_steps(metrics(whole), metrics(part), 6);
}

TEST_F(TrainerTest, ContinuesFromItsExportAsNewRun) {
  const TrainOptions first = options("first", 2);
  ASSERT_EQ(run(first), 0);
  TrainOptions second = options("second", 1);
  second.init_ckpt = first.output_dir + "/hf";
  second.model_config.clear();
  ASSERT_EQ(run(second, 2), 0);
  EXPECT_LT(metrics(second).at(1).at("loss"), metrics(first).at(1).at("loss"));
}

TEST_F(TrainerTest, RefusesToResumeOnOtherData) {
  ASSERT_EQ(run(options("run", 1)), 0);
  TrainOptions other = options("run", 2);
  other.max_seq_len = 8;
  try {
    run(other);
    FAIL() << "resumed on other data";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    EXPECT_NE(std::string(error.what()).find("same data"), std::string::npos) << error.what();
  }
}

TEST_F(TrainerTest, EvaluationSeesTheSameLossInEveryLayout) {
  TrainOptions one = options("one", 2);
  one.eval_data_path = one.data_path;
  one.eval_steps = 1;
  ASSERT_EQ(run(one), 0);
  TrainOptions other = one;
  other.output_dir = (folder_ / "other").string();
  other.zero_stage = 3;
  other.pipe_parallel_size = 2;
  ASSERT_EQ(run(other, 4), 0);
  for (const int step : {1, 2}) {
    const double loss = metrics(one).at(step).at("eval_loss");
    EXPECT_NEAR(loss, std::log(777.0), 0.3);
    EXPECT_NEAR(metrics(other).at(step).at("eval_loss"), loss, 1e-8 * loss) << step;
    EXPECT_NEAR(metrics(one).at(step).at("perplexity"), std::exp(loss), 1e-4 * std::exp(loss));
  }
}

// 40 windows of 17 ids and steps of 4: a learning rate of 0 leaves the weights alone, so the mean
// of ten steps' losses is the evaluation loss.
TEST_F(TrainerTest, EvaluationIsTheMeanOfTheTrainingLossesOfAFrozenModel) {
  TrainOptions frozen = options("frozen", 10);
  frozen.optimizer.lr = 0.0;
  frozen.eval_data_path = frozen.data_path;
  frozen.eval_steps = 10;
  ASSERT_EQ(run(frozen, 2), 0);
  const auto lines = metrics(frozen);
  double sum = 0.0;
  for (const auto& [step, line] : lines) sum += line.at("loss").get<double>();
  EXPECT_NEAR(lines.at(10).at("eval_loss"), sum / 10.0, 1e-6);
}

TEST_F(TrainerTest, ANonFiniteGradientSkipsTheStepAndIsNamed) {
  core::arm_faults("rank=1,step=2,point=bwd.layer,action=nan");
  const TrainOptions poisoned = options("poisoned", 3);
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(poisoned, 2), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("world rank 1"), std::string::npos) << said;
  EXPECT_NE(said.find("micro-batch 0"), std::string::npos) << said;
  EXPECT_NE(said.find("model.layers.4."), std::string::npos) << said;
  const auto lines = metrics(poisoned);
  EXPECT_FALSE(lines.at(1).at("skipped"));
  EXPECT_TRUE(lines.at(2).at("skipped"));
  EXPECT_TRUE(lines.at(2).at("grad_norm").is_null());
  EXPECT_FALSE(lines.at(3).at("skipped"));
}

TEST_F(TrainerTest, TenSkippedStepsInARowStopTheRun) {
  core::arm_faults("point=bwd.layer,action=nan");
  const TrainOptions poisoned = options("poisoned", 30);
  try {
    run(poisoned);
    FAIL() << "went on";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kNumericLimit);
  }
  EXPECT_EQ(metrics(poisoned).size(), 10U);
}

TEST_F(TrainerTest, ASkippedStepMovesNeitherWeightsNorSchedule) {
  TrainOptions clean = options("clean", 3);
  clean.scheduler.kind = SchedulerKind::kWarmup;
  clean.scheduler.warmup_num_steps = 5;
  ASSERT_EQ(run(clean), 0);
  core::arm_faults("step=2,point=bwd.layer,action=nan");
  TrainOptions skipped = clean;
  skipped.output_dir = (folder_ / "skipped").string();
  ASSERT_EQ(run(skipped), 0);
  // WarmupLR from 0 with DeepSpeed's rule: updates 1 and 2 run at 0, so step 3 after one skip is
  // the second update and still runs at 0.
  EXPECT_EQ(metrics(clean).at(3).at("lr").get<double>() > 0.0, true);
  EXPECT_EQ(metrics(skipped).at(3).at("lr").get<double>(), 0.0);
}

TEST_F(TrainerTest, DryRunSavesNothingAtTheEnd) {
  TrainOptions dry = options("dry", 2);
  dry.dry_run = true;
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(dry), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("plan for 1 ranks"), std::string::npos);
  EXPECT_FALSE(fs::exists(fs::path(dry.output_dir) / "global_step2"));
  EXPECT_FALSE(fs::exists(fs::path(dry.output_dir) / "hf"));
}

TEST_F(TrainerTest, KeepsTheLastCheckpointsOnly) {
  TrainOptions kept = options("kept", 5);
  kept.save_steps = 1;
  kept.keep_last = 2;
  ASSERT_EQ(run(kept), 0);
  EXPECT_FALSE(fs::exists(fs::path(kept.output_dir) / "global_step3"));
  EXPECT_TRUE(fs::exists(fs::path(kept.output_dir) / "global_step4"));
  EXPECT_TRUE(fs::exists(fs::path(kept.output_dir) / "global_step5"));
}

}  // namespace
}  // namespace fm::engine
