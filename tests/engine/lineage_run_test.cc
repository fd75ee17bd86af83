// Which checkpoint a whole run starts from, what it says, and what it leaves alone.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "checkpoint/survey.h"
#include "comm/meet/world.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/plan/disk_need.h"
#include "engine/run/trainer.h"
#include "small_run.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using checkpoint::Resume;

class LineageRunTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("fm_lineage_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path output() const { return folder_ / "output"; }
  fs::path at(int step) const { return output() / core::concat("global_step", step); }

  TrainOptions options(std::int64_t steps, Resume resume = Resume::kAuto) const {
    TrainOptions out = small_options(folder_.string(), true);
    out.output_dir = output().string();
    out.train_steps = steps;
    out.save_steps = 1;
    out.log_steps = 0;
    out.resume = resume;
    return out;
  }
  TrainOptions back_to(int step, std::int64_t steps) const {
    TrainOptions out = options(steps, Resume::kPath);
    out.resume_path = at(step).string();
    return out;
  }

  struct Said {
    int code = 0;  // what main would exit with
    std::string out;
    std::string err;
  };
  static Said run(const TrainOptions& options) {
    Said said;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      comm::run_ranks(
          2,
          [&](comm::Communicator& world) {
            train(options, open_run_model(options), world, RunContext{});
          },
          60'000);
    } catch (const core::Error& error) {
      said.code = static_cast<int>(error.code());
    }
    said.err = testing::internal::GetCapturedStderr();
    said.out = testing::internal::GetCapturedStdout();
    return said;
  }
  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  }
  // The last byte of a tensor: only reading everything finds it.
  void damage(int step) const {
    fs::path tensors;
    for (const auto& entry : fs::directory_iterator(at(step))) {
      if (entry.path().extension() == ".safetensors") tensors = entry.path();
    }
    std::fstream bytes(tensors, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(-1, std::ios::end);
    const char old = static_cast<char>(bytes.get());
    bytes.seekp(-1, std::ios::end);
    bytes.put(static_cast<char>(old ^ 1));
  }
  std::string put_aside() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(output())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(".bad-")) found.insert(name.substr(0, name.rfind('-')));
    }
    return core::join(std::vector<std::string>(found.begin(), found.end()), " ");
  }

  fs::path folder_;
};

TEST_F(LineageRunTest, AFreshStartBesideCheckpointsIsResumedByTheNextOne) {
  ASSERT_EQ(run(options(4)).code, 0);
  TrainOptions second = options(2, Resume::kNever);
  second.keep_last = 1;
  const Said fresh = run(second);
  ASSERT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_EQ(count(fresh.out, "resuming at step"), 0) << fresh.out;
  EXPECT_TRUE(fs::exists(at(2)));
  EXPECT_TRUE(fs::exists(at(4))) << "another run's";
  const Said next = run(options(3));
  EXPECT_EQ(count(next.out, "resuming at step 2,"), 1) << next.out << next.err;
}

// Room for those is room for the next ones.
TEST_F(LineageRunTest, ItsOwnCheckpointsArePrunedLater) {
  ASSERT_EQ(run(options(2)).code, 0);
  ASSERT_EQ(run(options(1, Resume::kNever)).code, 0);
  TrainOptions next = options(4);
  EXPECT_EQ(pruned_later(next), core::Bytes(0)) << "without --keep_last all stay";
  next.keep_last = 1;
  EXPECT_EQ(pruned_later(next), checkpoint::bytes_below(at(1)));
  next.resume = Resume::kNever;
  EXPECT_EQ(pruned_later(next), core::Bytes(0)) << "of another run";
}

TEST_F(LineageRunTest, ARunThatGoesBackKeepsItsParentAndIsResumed) {
  ASSERT_EQ(run(options(4)).code, 0);
  TrainOptions back = back_to(2, 3);
  back.keep_last = 1;
  ASSERT_EQ(run(back).code, 0);
  EXPECT_TRUE(fs::exists(at(2))) << "the parent";
  const Said next = run(options(4));
  EXPECT_EQ(count(next.out, "resuming at step 3,"), 1) << next.out << next.err;
}

TEST_F(LineageRunTest, ADamagedCheckpointThatWasNamedIsRefusedAndLeftInPlace) {
  ASSERT_EQ(run(options(2)).code, 0);
  damage(2);
  const Said said = run(back_to(2, 3));
  EXPECT_EQ(said.code, 12) << said.err;
  EXPECT_TRUE(fs::exists(at(2)));
  EXPECT_EQ(put_aside(), "");
}

TEST_F(LineageRunTest, LostStepsAreSaidOnceWhateverWasDamaged) {
  ASSERT_EQ(run(options(4)).code, 0);
  fs::remove(at(4) / "state.json");
  damage(3);
  damage(2);
  const Said said = run(options(5));
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(count(said.err, "steps are lost"), 1) << said.err;
  EXPECT_EQ(count(said.err, "resuming from step 1, 3 steps are lost"), 1) << said.err;
  EXPECT_EQ(count(said.err, "checkpoint passed over"), 1) << said.err;
}

TEST_F(LineageRunTest, StepsOfCheckpointsPutAsideAreLostToo) {
  ASSERT_EQ(run(options(3)).code, 0);
  damage(3);
  damage(2);
  const Said said = run(options(4));
  EXPECT_EQ(count(said.err, "resuming from step 1, 2 steps are lost"), 1) << said.err;
  EXPECT_EQ(put_aside(), ".bad-global_step2 .bad-global_step3");
}

TEST_F(LineageRunTest, TheExportMayNotReplaceTheModelThatItStartsFrom) {
  ASSERT_EQ(run(options(1)).code, 0);
  TrainOptions onto = options(2);
  onto.model_config.clear();
  fs::create_directory_symlink(output() / "hf", folder_ / "link");
  for (const fs::path& model :
       {output() / "hf", output() / ".." / "output" / "hf" / "", folder_ / "link"}) {
    onto.init_ckpt = model.string();
    const Said said = run(onto);
    EXPECT_EQ(said.code, 10) << model << said.err;
    EXPECT_TRUE(fs::exists(output() / "hf" / "model.safetensors"));
  }
}

}  // namespace
}  // namespace fm::engine
