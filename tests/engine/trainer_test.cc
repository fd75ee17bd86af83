// Whole runs through train(): files, evaluation, skips.
#include "engine/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/fault.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using TrainerTest = TrainerCase;

TEST_F(TrainerTest, ContinuesFromItsExportAsNewRun) {
  const TrainOptions first = options("first", 2);
  ASSERT_EQ(run(first), 0);
  TrainOptions second = options("second", 1);
  second.init_ckpt = first.output_dir + "/hf";
  second.model_config.clear();
  ASSERT_EQ(run(second, 2), 0);
  EXPECT_LT(metrics(second).at(1).loss, metrics(first).at(1).loss);
}

TEST_F(TrainerTest, EvaluationSeesTheSameLossInEveryLayout) {
  TrainOptions one = options("one", 2);
  one.eval_data_path = one.data_path;
  one.eval_steps = 1;
  ASSERT_EQ(run(one), 0);
  TrainOptions other = one;
  other.output_dir = (folder() / "other").string();
  other.zero_stage = 3;
  other.pipe_parallel_size = 2;
  ASSERT_EQ(run(other, 4), 0);
  for (const int step : {1, 2}) {
    const double loss = metrics(one).at(step).eval_loss;
    EXPECT_NEAR(loss, std::log(777.0), 0.3);
    EXPECT_NEAR(metrics(other).at(step).eval_loss, loss, 1e-8 * loss) << step;
    EXPECT_NEAR(metrics(one).at(step).perplexity, std::exp(loss), 1e-4 * std::exp(loss));
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
  for (const auto& [step, line] : lines) sum += line.loss;
  EXPECT_NEAR(lines.at(10).eval_loss, sum / 10.0, 1e-6);
}

// The same, of the first two of ten steps.
TEST_F(TrainerTest, EvaluationBatchesAreStepsWorthOfSamples) {
  TrainOptions frozen = options("frozen", 2);
  frozen.optimizer.lr = 0.0;
  frozen.eval_data_path = frozen.data_path;
  frozen.eval_steps = 2;
  frozen.eval_batches = 2;
  ASSERT_EQ(run(frozen, 2), 0);
  const auto lines = metrics(frozen);
  const double sum = lines.at(1).loss + lines.at(2).loss;
  EXPECT_NEAR(lines.at(2).eval_loss, sum / 2.0, 1e-6);
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
  EXPECT_FALSE(lines.at(1).skipped);
  EXPECT_TRUE(lines.at(2).skipped);
  EXPECT_FALSE(lines.at(2).grad_norm);
  EXPECT_FALSE(lines.at(3).skipped);
  // Running the step again to find the place is no part of it.
  for (const auto& [step, line] : lines)
    EXPECT_LT(line.phases_ms, 1.001 * line.step_time_ms) << step;
}

TEST_F(TrainerTest, TenSkippedStepsInARowStopTheRun) {
  core::arm_faults("point=bwd.layer,action=nan");
  const TrainOptions poisoned = options("poisoned", 30);
  expect_error(core::ExitCode::kNumericLimit, "10 steps skipped in a row", [&] { run(poisoned); });
  EXPECT_EQ(metrics(poisoned).size(), 10U);
}

TEST_F(TrainerTest, ScatteredSkipsDoNotStopTheRun) {
  core::arm_faults("step=2,point=bwd.layer,action=nan;step=4,point=bwd.layer,action=nan");
  TrainOptions poisoned = options("poisoned", 5);
  poisoned.max_consecutive_skips = 2;
  EXPECT_EQ(run(poisoned), 0);
}

TEST_F(TrainerTest, ASkippedStepMovesNeitherWeightsNorSchedule) {
  TrainOptions clean = options("clean", 3);
  clean.scheduler.kind = SchedulerKind::kWarmup;
  clean.scheduler.warmup_num_steps = 5;
  ASSERT_EQ(run(clean), 0);
  core::arm_faults("step=2,point=bwd.layer,action=nan");
  TrainOptions skipped = clean;
  skipped.output_dir = (folder() / "skipped").string();
  ASSERT_EQ(run(skipped), 0);
  // WarmupLR from 0 with DeepSpeed's rule: updates 1 and 2 run at 0, so step 3 after one skip is
  // the second update and still runs at 0.
  EXPECT_EQ(metrics(clean).at(3).lr > 0.0, true);
  EXPECT_EQ(metrics(skipped).at(3).lr, 0.0);
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

TEST_F(TrainerTest, ATornLineOfMetricsIsCutOff) {
  const TrainOptions next = options("next", 1);
  fs::create_directories(next.output_dir);
  std::ofstream(fs::path(next.output_dir) / "metrics.jsonl") << R"({"step": 7, "loss": 1.5})"
                                                             << "\n"
                                                             << R"({"step": 8, "lo)";
  ASSERT_EQ(run(next), 0);
  const auto lines = metrics(next);  // parses every line
  EXPECT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines.contains(7));
  EXPECT_TRUE(lines.contains(1));
}

TEST_F(TrainerTest, MetricsThatCannotBeWrittenAreSaidOnceAndStopNothing) {
  const TrainOptions full = options("full", 3);
  fs::create_directories(full.output_dir);
  fs::create_symlink("/dev/full", fs::path(full.output_dir) / "metrics.jsonl");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(full), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "metrics.jsonl lacks lines from step 1 on"), 1) << said;
  EXPECT_EQ(occurrences(said, "No space left on device"), 1) << said;
}

TEST_F(TrainerTest, ASaveThatMustSucceedEndsTheRunWhenItFails) {
  core::arm_faults("step=2,point=ckpt.S3,action=enospc");
  const TrainOptions last = options("last", 2);
  expect_error(core::ExitCode::kStorageFailed, "ckpt.S3", [&] { run(last, 2); });
  EXPECT_FALSE(fs::exists(fs::path(last.output_dir) / "hf"));
}

TEST_F(TrainerTest, ThreeFailedSavesInARowEndTheRun) {
  core::arm_faults("point=ckpt.S3,action=enospc");
  TrainOptions full = options("full", 10);
  full.save_steps = 1;
  expect_error(core::ExitCode::kStorageFailed, "3 saves failed in a row", [&] { run(full, 2); });
  EXPECT_EQ(metrics(full).size(), 3U);
}

TEST_F(TrainerTest, ASaveThatSucceedsForgivesTheFailedOnes) {
  std::string faults;
  for (const char* step : {"1", "2", "4", "5"}) {
    faults += core::concat("step=", step, ",point=ckpt.S3,action=enospc;");
  }
  core::arm_faults(faults);
  TrainOptions shaky = options("shaky", 6);
  shaky.save_steps = 1;
  EXPECT_EQ(run(shaky), 0);
  EXPECT_TRUE(fs::exists(fs::path(shaky.output_dir) / "global_step3"));
}

TEST_F(TrainerTest, RanksWithDifferentLibrariesAreRefused) {
  const TrainOptions mixed = options("mixed", 1);
  const auto start = [&] {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      RunContext context;
      context.arithmetic = {.libraries = world.rank() == 0 ? "G (avx2)" : "G (avx512)"};
      train(mixed, world, context);
    });
  };
  expect_error(core::ExitCode::kConfigError, "(rank 1: G (avx512); rank 0: G (avx2))", start);
}

TEST_F(TrainerTest, DumpedGradientsNameTheirStep) {
  TrainOptions dumped = options("dumped", 2);
  ASSERT_EQ(run(dumped), 0);
  dumped.train_steps = 4;
  dumped.dump_gradients = (folder() / "gradients.safetensors").string();
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(dumped), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(occurrences(said, "gradients of step 3 are in "), 1) << said;
}

// Four documents under another field, one per micro-batch: too little text for a single packed row,
// and their mean of means is the mean of what each gives alone.
TEST_F(TrainerTest, PackingTextFieldAndLossReductionReachTheRun) {
  const auto loss_of = [&](const std::string& name, const std::vector<std::string>& texts) {
    TrainOptions one = options(name, 1);
    one.data_path = (folder() / (name + ".jsonl")).string();
    std::ofstream file(one.data_path);
    for (const std::string& text : texts) file << "{\"body\": \"" << text << "\"}\n";
    file.close();
    one.data_format = data::DataFormat::kJsonl;
    one.packing = data::Packing::kOneDocument;
    one.text_field = "body";
    one.loss_reduction = LossReduction::kMeanOfMeans;
    one.batch = {static_cast<std::int64_t>(texts.size()), 1, {}};
    EXPECT_EQ(run(one), 0);
    return metrics(one).at(1).loss;
  };
  const std::vector<std::string> texts = {"a", "bcd", "ef", "ghijkl"};
  double mean = 0.0;
  double by_token = 0.0;
  double tokens = 0.0;
  for (const std::string& text : texts) {
    const double loss = loss_of("alone_" + text, {text});
    const auto counted = static_cast<double>(text.size());  // EOS is the last label
    mean += loss / 4.0;
    by_token += loss * counted;
    tokens += counted;
  }
  ASSERT_GT(std::abs(mean - by_token / tokens), 1e-4);
  EXPECT_NEAR(loss_of("together", texts), mean, 1e-6);
}

}  // namespace
}  // namespace fm::engine
