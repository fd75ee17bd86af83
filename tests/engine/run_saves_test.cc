// What a run saves, keeps and goes back to.
#include "engine/run/run_saves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "core/fault.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

// Once with saves that steps wait for, and once with those that they do not.
class RunSavesTest : public TrainerCase, public testing::WithParamInterface<bool> {
 protected:
  static bool aside() { return GetParam(); }
  TrainOptions options(const std::string& output, std::int64_t steps) const {
    TrainOptions out = TrainerCase::options(output, steps);
    out.save_async = aside();
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(All, RunSavesTest, testing::Bool(),
                         [](const auto& at) { return at.param ? "Aside" : "Waiting"; });

// The update of step 5 breaks the weights, all finite; every later loss is not.
TEST_P(RunSavesTest, ADivergedRunKeepsItsGoodCheckpointsAndNamesTheOneToGoBackTo) {
  TrainOptions diverged = options("diverged", 4);
  diverged.save_steps = 1;
  diverged.keep_last = 2;
  ASSERT_EQ(run(diverged), 0);
  diverged.train_steps = 30;
  diverged.optimizer.lr = 1e30;
  const fs::path output = diverged.output_dir;
  expect_error(core::ExitCode::kNumericLimit,
               "go back with --resume " + (output / "global_step4").string(),
               [&] { run(diverged, 2); });
  EXPECT_TRUE(fs::exists(output / "global_step4"));  // step 5 proved it
  EXPECT_TRUE(fs::exists(output / "global_step5"));  // saved before the first skip
  EXPECT_FALSE(fs::exists(output / "global_step6"));
  EXPECT_FALSE(fs::exists(output / "global_step15"));

  // Back at a sane rate: the broken checkpoint is tried once more, ten steps long.
  diverged.optimizer.lr = 1e-3;
  expect_error(core::ExitCode::kNumericLimit,
               (output / "global_step5").string() + " may be broken too", [&] { run(diverged); });
  diverged.resume = checkpoint::Resume::kPath;
  diverged.resume_path = (output / "global_step4").string();
  diverged.train_steps = 6;
  EXPECT_EQ(run(diverged), 0);
  EXPECT_TRUE(std::isfinite(metrics(diverged).at(6).loss));
}

TEST_P(RunSavesTest, CheckpointsFromBeforeTheFirstSkipOutliveKeepLast) {
  core::arm_faults("step=4,point=bwd.layer,action=nan");
  TrainOptions skipping = options("skipping", 7);
  skipping.save_steps = 1;
  skipping.keep_last = 1;
  ASSERT_EQ(run(skipping, 2), 0);
  skipping.train_steps = 9;
  ASSERT_EQ(run(skipping, 2), 0);
  std::vector<int> there;
  for (int step = 1; step <= 9; ++step) {
    const std::string tag = core::concat("global_step", step);
    if (fs::exists(fs::path(skipping.output_dir) / tag)) there.push_back(step);
  }
  // 2 and 3 are from before the skip; 8 was proven by step 9.
  EXPECT_EQ(there, (std::vector<int>{2, 3, 8, 9}));
}

TEST_P(RunSavesTest, NothingIsSavedOrExportedAfterASkippedStep) {
  core::arm_faults("step=2,point=bwd.layer,action=nan;step=3,point=bwd.layer,action=nan");
  TrainOptions skipping = options("skipping", 3);
  skipping.save_steps = 1;
  expect_error(core::ExitCode::kNumericLimit, "the last step must have a finite loss",
               [&] { run(skipping, 2); });
  EXPECT_TRUE(fs::exists(fs::path(skipping.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(skipping.output_dir) / "global_step2"));
  EXPECT_FALSE(fs::exists(fs::path(skipping.output_dir) / "hf"));
}

// 0/0 in the rows of the embedding without a gradient: the loss stays finite for a step.
TEST_P(RunSavesTest, WhatIsNotFiniteIsNeitherSavedNorExported) {
  TrainOptions broken = options("broken", 1);
  broken.model_config = small_options(folder().string(), false).model_config;  // untied
  broken.optimizer.eps = 0.0;
  broken.optimizer.weight_decay = 0.0;
  expect_error(core::ExitCode::kNumericLimit, " of model.embed_tokens.weight",
               [&] { run(broken, 2); });
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "hf"));
}

// The same weights before the end, in a copy: found when it is written.
TEST_P(RunSavesTest, WhatIsNotFiniteIsNotSavedBetweenSteps) {
  TrainOptions broken = options("broken", 3);
  broken.save_steps = 1;
  broken.model_config = small_options(folder().string(), false).model_config;  // untied
  broken.optimizer.eps = 0.0;
  broken.optimizer.weight_decay = 0.0;
  expect_error(core::ExitCode::kNumericLimit, " of model.embed_tokens.weight",
               [&] { run(broken, 2); });
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "hf"));
}

// What sleeps is read once, by the write that finds it.
TEST_P(RunSavesTest, WhatSleepsAndIsNotFiniteIsNeitherSavedNorExported) {
  TrainOptions broken = options("broken", 1);
  broken.model_config = small_options(folder().string(), false).model_config;  // untied
  broken.zero_stage = 1;
  broken.offload.optimizer = core::Tier::kNvme;
  broken.offload.disk.method = offload::DiskOptions::Method::kMemory;
  broken.optimizer.eps = 0.0;
  broken.optimizer.weight_decay = 0.0;
  expect_error(core::ExitCode::kNumericLimit, "what is saved must be finite",
               [&] { run(broken, 2); });
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "hf"));
}

TEST_P(RunSavesTest, WithoutASaveStrategyOnlyMetricsAreWritten) {
  TrainOptions bare = options("bare", 2);
  bare.saves = false;
  bare.save_steps = 1;
  ASSERT_EQ(run(bare), 0);
  EXPECT_EQ(metrics(bare).size(), 2U);
  EXPECT_FALSE(fs::exists(fs::path(bare.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(bare.output_dir) / "hf"));
}

TEST_P(RunSavesTest, KeepsTheLastCheckpointsOnly) {
  TrainOptions kept = options("kept", 5);
  kept.save_steps = 1;
  kept.keep_last = 2;
  ASSERT_EQ(run(kept), 0);
  EXPECT_FALSE(fs::exists(fs::path(kept.output_dir) / "global_step3"));
  EXPECT_TRUE(fs::exists(fs::path(kept.output_dir) / "global_step4"));
  EXPECT_TRUE(fs::exists(fs::path(kept.output_dir) / "global_step5"));
}

TEST_P(RunSavesTest, ASaveThatMustSucceedEndsTheRunWhenItFails) {
  core::arm_faults("step=2,point=ckpt.S3,action=enospc");
  const TrainOptions last = options("last", 2);
  expect_error(core::ExitCode::kStorageFailed, "ckpt.S3", [&] { run(last, 2); });
  EXPECT_FALSE(fs::exists(fs::path(last.output_dir) / "hf"));
}

TEST_P(RunSavesTest, ThreeFailedSavesInARowEndTheRun) {
  core::arm_faults("point=ckpt.S3,action=enospc");
  TrainOptions full = options("full", 10);
  full.save_steps = 1;
  expect_error(core::ExitCode::kStorageFailed, "3 saves failed in a row", [&] { run(full, 2); });
  EXPECT_EQ(metrics(full).size(), aside() ? 4U : 3U);  // the failure shows behind the next step
}

TEST_P(RunSavesTest, ASaveThatSucceedsForgivesTheFailedOnes) {
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

// Saves of two layouts, of steps 2, 4, 6 and the last.
class AsyncSaves : public TrainerCase {
 protected:
  TrainOptions saving(const std::string& output, bool aside) const {
    TrainOptions out = options(output, 9);
    out.save_steps = 2;
    out.zero_stage = 3;
    out.save_async = aside;
    return out;
  }
  static std::vector<std::string> files_of(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(AsyncSaves, AreTheSameFilesAndChangeNoStep) {
  const TrainOptions waiting = saving("waiting", false);
  const TrainOptions aside = saving("aside", true);
  ASSERT_EQ(run(waiting, 2), 0);
  ASSERT_EQ(run(aside, 2), 0);
  for (const char* tag : {"global_step2", "global_step4", "global_step6", "global_step9", "hf"}) {
    SCOPED_TRACE(tag);
    const fs::path there = fs::path(waiting.output_dir) / tag;
    const fs::path here = fs::path(aside.output_dir) / tag;
    const std::vector<std::string> names = files_of(there);
    ASSERT_EQ(files_of(here), names);
    for (const std::string& name : names) {
      if (name == "MANIFEST.json") continue;  // has the time of the save
      EXPECT_TRUE(content(here / name) == content(there / name)) << name;
    }
  }
  for (const auto& [step, line] : metrics(waiting)) {
    EXPECT_EQ(metrics(aside).at(step).loss, line.loss) << step;
  }
}

// Its files are made, written and published behind three steps.
TEST_F(AsyncSaves, AreDurableWhileLaterStepsRun) {
  for (const bool aside : {false, true}) {
    TrainOptions said = saving(aside ? "aside" : "waiting", aside);
    said.save_steps = 5;
    said.train_steps = 10;
    said.log_steps = 1;
    testing::internal::CaptureStdout();
    ASSERT_EQ(run(said, 2), 0);
    const std::string out = testing::internal::GetCapturedStdout();
    const std::size_t saved = out.find("\nsaved " + said.output_dir + "/global_step5\n");
    ASSERT_NE(saved, std::string::npos) << out;
    EXPECT_EQ(out.find("\nstep 7/10 ") < saved, aside) << out;
    EXPECT_LT(out.find("\nstep 5/10 "), saved) << out;
  }
}

TEST_F(AsyncSaves, StallsStandInTheRowOfTheNextStep) {
  TrainOptions rows = saving("rows", true);
  rows.save_steps = 4;
  rows.train_steps = 12;
  ASSERT_EQ(run(rows, 2), 0);
  std::ifstream lines(rows.output_dir + "/metrics.jsonl");
  std::string line;
  while (std::getline(lines, line)) {
    for (const int step : {4, 5}) {
      if (line.find(core::concat("{\"step\": ", step, ",")) != 0) continue;
      EXPECT_EQ(line.find("save_stall_ms") != std::string::npos, step == 5) << line;
    }
  }
}

}  // namespace
}  // namespace fm::engine
