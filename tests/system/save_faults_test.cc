// A process dies at each step of the save protocol: the next start resumes from the checkpoint that
// is complete, never from half of one, and ends with the losses of a run that nobody killed.
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <tuple>

#include "core/check.h"
#include "tests/system/long_run.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

constexpr int kFirstSave = 2;
constexpr int kSecondSave = 4;
constexpr int kWritten = 5;  // every rank's numbers are on the disk
constexpr int kPublish = 7;  // S7 gives the checkpoint its name

Interrupted short_run() { return {.steps = 6, .save_steps = 2}; }

class SaveFaults : public LongRun, public testing::WithParamInterface<std::tuple<int, int>> {
 protected:
  static int point() { return std::get<0>(GetParam()); }
  static int victim() { return std::get<1>(GetParam()); }

  void die_in_save(int step, const std::vector<std::string>& more = {}) {
    Interrupted run = short_run();
    run.more = more;
    run.fault =
        core::concat("rank=", victim(), ",step=", step, ",point=ckpt.S", point(), ",action=kill");
    const Ended ended = this->run(launch_of(run));
    const auto index = static_cast<std::size_t>(victim());
    ASSERT_EQ(ended.codes[index], 128 + SIGKILL) << "the fault point was not reached" << ended.err;
    EXPECT_EQ(ended.codes[1 - index], 20) << ended.err;
    EXPECT_GE(occurrences(ended.err, core::concat("fmengine: rank ", victim(), " (host ")), 1);
  }

  static bool resumed_at(const Ended& ended, int step) {
    return occurrences(ended.out, core::concat("resuming at step ", step, ",")) == 1;
  }
};

TEST_P(SaveFaults, TheNextStartResumesFromTheCheckpointThatIsComplete) {
  die_in_save(kSecondSave);
  if (HasFatalFailure()) return;
  const Ended ended = resume_to_the_end(short_run());
  // While rank 1 dies between S5 and S7, rank 0 may be faster with the name.
  const bool may_be_old = point() <= kPublish;
  const bool written = point() >= kWritten;  // by all ranks
  const bool may_be_new = point() > kPublish || (written && victim() != 0);
  EXPECT_TRUE((may_be_old && resumed_at(ended, kFirstSave)) ||
              (may_be_new && resumed_at(ended, kSecondSave)))
      << ended.out << ended.err;
}
INSTANTIATE_TEST_SUITE_P(SecondSave, SaveFaults,
                         testing::Combine(testing::Range(0, 11), testing::Values(0, 1)),
                         [](const auto& at) {
                           return core::concat("S", std::get<0>(at.param), "Rank",
                                               std::get<1>(at.param));
                         });

class FirstSaveFaults : public SaveFaults {};

TEST_P(FirstSaveFaults, TheNextStartIsFreshAndSaysSo) {
  die_in_save(kFirstSave);
  if (HasFatalFailure()) return;
  const Ended ended = resume_to_the_end(short_run());
  EXPECT_EQ(occurrences(ended.out, "resuming at step"), 0) << ended.out;
  EXPECT_EQ(occurrences(ended.out, "no checkpoint"), 1) << ended.out;
}
INSTANTIATE_TEST_SUITE_P(FirstSave, FirstSaveFaults,
                         testing::Values(std::tuple(0, 0), std::tuple(3, 1), std::tuple(6, 0),
                                         std::tuple(7, 0)),
                         [](const auto& at) {
                           return core::concat("S", std::get<0>(at.param), "Rank",
                                               std::get<1>(at.param));
                         });

// A save that fails without a death is skipped with one message; the run goes on to its end.
class SaveFails : public LongRun, public testing::WithParamInterface<const char*> {};

TEST_P(SaveFails, TheRunGoesOnAndSaysWhy) {
  Interrupted run = short_run();
  run.fault = core::concat("rank=1,step=4,point=ckpt.S3,action=", GetParam());
  const Ended ended = run_well(launch_of(run));
  EXPECT_EQ(occurrences(ended.err, "injected at ckpt.S3"), 1) << ended.err;
  EXPECT_EQ(first_difference(uninterrupted(), steps_in(output()), run.steps), "");
  EXPECT_FALSE(std::filesystem::exists(output() / "global_step4"));
  EXPECT_TRUE(std::filesystem::exists(output() / "global_step6"));
  EXPECT_EQ(leftovers_in(output()), "");
}
INSTANTIATE_TEST_SUITE_P(All, SaveFails, testing::Values("enospc", "eio"),
                         [](const auto& at) { return std::string(at.param); });

// The last save and the one of SIGTERM are all that is left of the work: exit code 0 or 75 would be
// a lie. Rank 1 fails, both ranks say so by their code.
class SaveMustSucceed : public LongRun {};

TEST_F(SaveMustSucceed, AtTheLastStep) {
  Interrupted run = short_run();
  run.fault = "rank=1,step=6,point=ckpt.S3,action=enospc";
  const Ended ended = this->run(launch_of(run));
  for (const int code : ended.codes) EXPECT_EQ(code, 26) << ended.out << ended.err;
  EXPECT_GE(occurrences(ended.err, "fmengine-train: "), 1) << ended.err;
  EXPECT_GE(occurrences(ended.err, "rank 1"), 1) << ended.err;
  EXPECT_EQ(content_of(output() / "latest"), "global_step4");
}

TEST_F(SaveMustSucceed, AtSigterm) {
  const Interrupted run{
      .steps = kEndless, .save_steps = 0, .fault = "rank=1,point=ckpt.S3,action=enospc"};
  const std::unique_ptr<Job> job = start(launch_of(run));
  wait_for_step(*job, output(), 60);
  EXPECT_EQ(kill(job->rank_pid(0), SIGTERM), 0);
  const Ended ended = job->wait(kLimitMs);
  for (const int code : ended.codes) EXPECT_EQ(code, 26) << ended.out << ended.err;
  EXPECT_GE(occurrences(ended.err, "fmengine-train: "), 1) << ended.err;
}

// The checkpoint of step 4 is on its way when the signal comes, if the machine is not very slow.
TEST_F(LongRun, ASaveThatIsUnderWayEndsBeforeTheOneOfSigterm) {
  Interrupted run{.steps = kEndless, .save_steps = 4, .more = {"--keep_last", "0"}};
  run.fault = "rank=1,step=4,point=ckpt.S4,action=sleep:1100";
  const std::unique_ptr<Job> job = start(launch_of(run));
  wait_for_step(*job, output(), 6);
  ASSERT_EQ(kill(job->rank_pid(0), SIGTERM), 0);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{75, 75})) << ended.err;
  const int last = steps_in(output()).rbegin()->first;
  for (const int step : {4, last}) {
    const std::string tag = core::concat("global_step", step);
    EXPECT_TRUE(std::filesystem::exists(output() / tag / "MANIFEST.json")) << tag;
    EXPECT_EQ(occurrences(ended.out, "/" + tag + "\n"), 1) << ended.out;
  }
  EXPECT_EQ(content_of(output() / "latest"), core::concat("global_step", last));
  EXPECT_EQ(leftovers_in(output()), "");
}

// Root of the host may mount.
TEST_F(LongRun, ADiskThatIsUnmountedDuringTheRunFailsTheSaves) {
  const std::filesystem::path disk = folder() / "disk";
  std::filesystem::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64m") != 0) GTEST_SKIP() << "may not mount";
  const std::filesystem::path mounted = disk / "output";
  Launch launch = launch_of({.steps = kEndless, .save_steps = 10});
  std::ranges::replace(launch.words, output().string(), mounted.string());
  std::filesystem::create_directories(folder() / "job");
  Job job(launch, folder() / "job");
  wait_for_step(job, mounted, 3);
  ASSERT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
  const std::string refusal = "the output directory must stay on its file system";
  const auto refusals = [&] {
    return occurrences(content_of(folder() / "job" / "err.0"), refusal);
  };
  EXPECT_TRUE(eventually(kLimitMs, [&] { return refusals() >= 2 || job.all_gone(0); }));
  ASSERT_EQ(kill(job.rank_pid(0), SIGTERM), 0);
  const Ended ended = job.wait(kLimitMs);
  EXPECT_EQ(ended.codes, std::vector<int>(2, 26)) << ended.out << ended.err;
  EXPECT_GE(occurrences(ended.err, refusal), 3) << ended.err;
  EXPECT_TRUE(std::filesystem::is_empty(disk));
}

}  // namespace
}  // namespace fm::system
