// Whole runs whose optimizer sleeps on drives: what they save, resume and say.
#include <gtest/gtest.h>

#include <set>

#include "core/fault.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class TiersRun : public TrainerCase {
 protected:
  TrainOptions asleep(TrainOptions options) const {
    options.zero_stage = std::max(options.zero_stage, 1);
    options.offload.optimizer = core::Tier::kNvme;
    options.offload.optimizer_paths = {(folder() / "drive").string()};
    options.offload.disk.block_bytes = 64 << 10;
    return options;
  }
};

void expect_equal_steps(const std::map<int, MetricsLine>& a, const std::map<int, MetricsLine>& b,
                        int steps) {
  for (int step = 1; step <= steps; ++step) {
    EXPECT_EQ(a.at(step).loss, b.at(step).loss) << "step " << step;
    EXPECT_EQ(a.at(step).grad_norm, b.at(step).grad_norm) << "step " << step;
    EXPECT_EQ(a.at(step).eval_loss, b.at(step).eval_loss) << "step " << step;
  }
}

void expect_equal_files(const fs::path& a, const fs::path& b) {
  std::set<std::string> compared;
  for (const fs::directory_entry& entry : fs::directory_iterator(a)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_EQ(content(entry.path()), content(b / name)) << name;
    compared.insert(name);
  }
  EXPECT_FALSE(compared.empty()) << a;
}

// Files are those of a run in memory: weights, moments, and the export.
TEST_F(TiersRun, SavesTheFilesOfARunInMemoryAndEvaluatesBetweenSteps) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    SCOPED_TRACE(core::name_of(element));
    TrainOptions whole = options(core::concat("whole", core::name_of(element)), 4);
    whole.element = element;
    whole.save_steps = 2;
    whole.eval_steps = 1;
    whole.eval_data_path = whole.data_path;
    whole.eval_batches = 2;
    ASSERT_EQ(run(whole), 0);
    for (const int zero_stage : {1, 3}) {
      TrainOptions tiers = asleep(whole);
      tiers.output_dir = (folder() / core::concat("tiers", core::name_of(element), zero_stage));
      tiers.zero_stage = zero_stage;
      ASSERT_EQ(run(tiers, 2), 0);
      std::map<int, MetricsLine> found = metrics(tiers);
      expect_equal_steps(metrics(whole), found, 4);
      for (const char* saved : {"global_step2", "global_step4", "hf"}) {
        expect_equal_files(fs::path(whole.output_dir) / saved, fs::path(tiers.output_dir) / saved);
      }
      EXPECT_TRUE(fs::is_empty(folder() / "drive"));
    }
  }
}

TEST_F(TiersRun, ResumesInMemoryWhatSleptAndTheOtherWayRound) {
  TrainOptions whole = options("whole", 6);
  whole.element = core::DType::kBF16;
  ASSERT_EQ(run(whole), 0);
  TrainOptions part = whole;
  part.output_dir = (folder() / "part").string();
  struct Start {
    int steps, ranks, zero_stage;
    bool sleeps;
  };
  for (const Start& start :
       {Start{2, 2, 3, true}, Start{3, 1, 0, false}, Start{5, 4, 2, true}, Start{6, 2, 1, true}}) {
    part.train_steps = start.steps;
    part.zero_stage = start.zero_stage;
    TrainOptions now = part;
    if (start.sleeps) now = asleep(part);
    ASSERT_EQ(run(now, start.ranks), 0);
  }
  for (int step = 1; step <= 6; ++step) {
    EXPECT_EQ(metrics(whole).at(step).loss, metrics(part).at(step).loss) << step;
  }
  expect_equal_files(fs::path(whole.output_dir) / "global_step6",
                     fs::path(part.output_dir) / "global_step6");
}

TEST_F(TiersRun, AFailingDriveEndsTheRunWithTheLastCheckpointWhole) {
  TrainOptions tiers = asleep(options("run", 4));
  tiers.save_steps = 2;
  core::arm_faults("point=offload.write,step=36,action=eio");
  expect_error(core::ExitCode::kStorageFailed, "drive", [&] { run(tiers); });
  core::arm_faults("");
  ASSERT_EQ(run(tiers), 0);
}

TEST_F(TiersRun, RefusesWhatCannotSleep) {
  TrainOptions whole = asleep(options("run", 1));
  whole.zero_stage = 0;
  expect_error(core::ExitCode::kConfigError, "needs ZeRO stage 1, 2 or 3", [&] { run(whole); });
  TrainOptions nowhere = asleep(options("run", 1));
  nowhere.offload.optimizer_paths.clear();
  expect_error(core::ExitCode::kConfigError, "set \"nvme_path\"", [&] { run(nowhere); });
  TrainOptions undone = asleep(options("run", 1));
  undone.post_validation = true;
  undone.pipe_parallel_size = 2;
  expect_error(core::ExitCode::kConfigError, "leave --post_validation", [&] { run(undone, 2); });
}

}  // namespace
}  // namespace fm::engine
