// What a run saves, keeps and goes back to.
#include "engine/run/run_saves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/fault.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using RunSavesTest = TrainerCase;

// The update of step 5 breaks the weights, all finite; every later loss is not.
TEST_F(RunSavesTest, ADivergedRunKeepsItsGoodCheckpointsAndNamesTheOneToGoBackTo) {
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

TEST_F(RunSavesTest, CheckpointsFromBeforeTheFirstSkipOutliveKeepLast) {
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

TEST_F(RunSavesTest, NothingIsSavedOrExportedAfterASkippedStep) {
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
TEST_F(RunSavesTest, WhatIsNotFiniteIsNeitherSavedNorExported) {
  TrainOptions broken = options("broken", 1);
  broken.model_config = small_options(folder().string(), false).model_config;  // untied
  broken.optimizer.eps = 0.0;
  broken.optimizer.weight_decay = 0.0;
  expect_error(core::ExitCode::kNumericLimit, " of model.embed_tokens.weight",
               [&] { run(broken, 2); });
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(broken.output_dir) / "hf"));
}

TEST_F(RunSavesTest, WithoutASaveStrategyOnlyMetricsAreWritten) {
  TrainOptions bare = options("bare", 2);
  bare.saves = false;
  bare.save_steps = 1;
  ASSERT_EQ(run(bare), 0);
  EXPECT_EQ(metrics(bare).size(), 2U);
  EXPECT_FALSE(fs::exists(fs::path(bare.output_dir) / "global_step1"));
  EXPECT_FALSE(fs::exists(fs::path(bare.output_dir) / "hf"));
}

TEST_F(RunSavesTest, KeepsTheLastCheckpointsOnly) {
  TrainOptions kept = options("kept", 5);
  kept.save_steps = 1;
  kept.keep_last = 2;
  ASSERT_EQ(run(kept), 0);
  EXPECT_FALSE(fs::exists(fs::path(kept.output_dir) / "global_step3"));
  EXPECT_TRUE(fs::exists(fs::path(kept.output_dir) / "global_step4"));
  EXPECT_TRUE(fs::exists(fs::path(kept.output_dir) / "global_step5"));
}

TEST_F(RunSavesTest, ASaveThatMustSucceedEndsTheRunWhenItFails) {
  core::arm_faults("step=2,point=ckpt.S3,action=enospc");
  const TrainOptions last = options("last", 2);
  expect_error(core::ExitCode::kStorageFailed, "ckpt.S3", [&] { run(last, 2); });
  EXPECT_FALSE(fs::exists(fs::path(last.output_dir) / "hf"));
}

TEST_F(RunSavesTest, ThreeFailedSavesInARowEndTheRun) {
  core::arm_faults("point=ckpt.S3,action=enospc");
  TrainOptions full = options("full", 10);
  full.save_steps = 1;
  expect_error(core::ExitCode::kStorageFailed, "3 saves failed in a row", [&] { run(full, 2); });
  EXPECT_EQ(metrics(full).size(), 3U);
}

TEST_F(RunSavesTest, ASaveThatSucceedsForgivesTheFailedOnes) {
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

}  // namespace
}  // namespace fm::engine
