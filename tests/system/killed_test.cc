// kill -9 of a rank in the middle of a run: nobody is left, the rank is named, and the same command
// again ends with the losses of a run that nobody killed.
#include <signal.h>

#include "core/check.h"
#include "tests/system/long_run.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

constexpr int kStep = 60;  // the last one before the kill

struct Death {
  Interrupted run;
  int victim;
};

std::string name_of_death(const testing::TestParamInfo<Death>& info) {
  return core::concat(name_of(info.param.run.starter), info.param.run.ranks, "Rank",
                      info.param.victim);
}

void PrintTo(const Death& at, std::ostream* out) { *out << name_of(at.run.starter); }

class Killed : public LongRun, public testing::WithParamInterface<Death> {
 protected:
  // Kills the victim behind kStep, and checks what the others do.
  void kill_it() {
    auto [run, victim] = GetParam();
    run.fault = held_before(victim, kStep + 1);
    run.more = {"--save_async", "false"};  // the checkpoint of step 50 is there
    const std::unique_ptr<Job> job = start(launch_of(run));
    wait_for_step(*job, output(), kStep);
    ASSERT_EQ(kill(job->rank_pid(victim), SIGKILL), 0);
    const Ended ended = job->wait(kLimitMs);
    EXPECT_EQ(steps_in(output()).rbegin()->first, kStep);
    expect_named(ended);
  }

  static void expect_named(const Ended& ended) {
    const auto& [run, victim] = GetParam();
    const std::string name = core::concat("fmengine: rank ", victim, " (host ");
    EXPECT_GE(occurrences(ended.err, name), 1) << ended.err;
    for (std::size_t i = 0; i < ended.codes.size(); ++i) {
      EXPECT_NE(ended.codes[i], 0);
      if (run.starter != Starter::kByHand) continue;
      EXPECT_EQ(ended.codes[i], static_cast<int>(i) == victim ? 128 + SIGKILL : 20) << ended.err;
    }
  }
};

TEST_P(Killed, NobodyIsLeftAndTheSameCommandGoesOnBitForBit) {
  kill_it();
  if (HasFatalFailure()) return;
  const Ended ended = resume_to_the_end(GetParam().run);
  EXPECT_EQ(occurrences(ended.out, "resuming at step 50,"), 1) << ended.out;
}
INSTANTIATE_TEST_SUITE_P(EachRank, Killed,
                         testing::Values(Death{{.starter = Starter::kByHand, .steps = 80}, 0},
                                         Death{{.starter = Starter::kByHand, .steps = 80}, 1},
                                         Death{{.starter = Starter::kMpirun, .steps = 80}, 0},
                                         Death{{.starter = Starter::kMpirun, .steps = 80}, 1},
                                         Death{{.starter = Starter::kTorchrun, .steps = 80}, 0},
                                         Death{{.starter = Starter::kTorchrun, .steps = 80}, 1}),
                         name_of_death);
INSTANTIATE_TEST_SUITE_P(
    OfAPipeline, Killed,
    testing::Values(Death{{.ranks = 4, .pipe_ranks = 2, .zero_stage = 3, .steps = 80}, 3},
                    Death{{.starter = Starter::kMpirun, .ranks = 4, .pipe_ranks = 2, .steps = 80},
                          2}),
    name_of_death);

// Every step is saved, and each kill lands in another place of a save.
class KilledAgain : public LongRun {};

TEST_F(KilledAgain, AndAgainWhileEveryStepIsSaved) {
  Interrupted run{.steps = 18, .save_steps = 1, .more = {"--keep_last", "2"}};
  for (int round = 0; round < 5; ++round) {
    const int victim = round % 2;
    run.fault = core::concat("rank=", victim, ",step=", 3 * round + 3, ",point=ckpt.S",
                             2 * round + 1, ",action=kill");
    const Ended ended = this->run(launch_of(run));
    EXPECT_EQ(ended.codes[static_cast<std::size_t>(victim)], 128 + SIGKILL) << ended.err;
    EXPECT_EQ(ended.codes[static_cast<std::size_t>(1 - victim)], 20) << ended.err;
  }
  resume_to_the_end(run);
}

// --resume never is for the first start of a job that its launcher starts again.
class StartedAgain : public LongRun {
 protected:
  Ended start_number(int count, const std::string& fault) {
    Interrupted one{.steps = 40, .save_steps = 10, .more = {"--resume", "never"}, .fault = fault};
    one.more.insert(one.more.end(), {"--save_async", "false"});
    Launch launch = launch_of(one);
    launch.variables.push_back("FME_LAUNCH_ID=a-job");
    launch.variables.push_back(core::concat("FME_RESTART_COUNT=", count));
    return run(launch);
  }
};

TEST_F(StartedAgain, TheRunOfTheJobGoesOnNotAtResumeNever) {
  EXPECT_EQ(occurrences(start_number(0, "rank=1,step=25,point=step.pre,action=kill").err,
                        "fmengine: rank 1 (host "),
            1);
  const Ended again = start_number(1, "");
  EXPECT_EQ(again.codes, (std::vector{0, 0})) << again.err;
  EXPECT_EQ(occurrences(again.out, "resuming at step 20,"), 1) << again.out;
  EXPECT_EQ(occurrences(unwrapped(again.out), "goes on with the run that this job began"), 1)
      << again.out;
  EXPECT_EQ(first_difference(uninterrupted(), steps_in(output()), 40), "");
  const Ended other = start_number(0, "");
  EXPECT_EQ(occurrences(other.out, "fresh start: --resume never"), 1) << other.out;
}

// The launcher dies, not a rank: mpirun's daemon takes its ranks with it.
class LauncherKilled : public LongRun {};

TEST_F(LauncherKilled, NoRankOutlivesMpirun) {
  const Interrupted run{
      .starter = Starter::kMpirun, .steps = 80, .fault = held_before(0, kStep + 1)};
  const std::unique_ptr<Job> job = start(launch_of(run));
  wait_for_step(*job, output(), kStep);
  ASSERT_EQ(kill(job->started()[0], SIGKILL), 0);
  EXPECT_TRUE(job->all_gone(kLimitMs));
  resume_to_the_end(run);
}

// What a rank clears up may block for ever: a file system, a library. It ends all the same, with
// the code of its failure, long before the fault would let it go.
class BlockedTeardown : public LongRun, public testing::WithParamInterface<Starter> {};

TEST_P(BlockedTeardown, EndsWithTheCodeOfTheFailure) {
  for (const int culprit : {0, 1}) {
    const Interrupted run{
        .starter = GetParam(),
        .steps = kEndless,
        .fault = core::concat("rank=", culprit, ",step=3,point=step.post,action=throw;rank=",
                              culprit, ",point=teardown,action=sleep:", 2 * kLimitMs)};
    const Ended ended = start(launch_of(run))->wait(kLimitMs);
    for (const int code : ended.codes) EXPECT_EQ(code, 1) << ended.err;
    EXPECT_GE(occurrences(ended.err, "injected fault at teardown"), 1) << ended.err;
    EXPECT_GE(occurrences(ended.err, "reports exit code 1: injected fault at step.post"), 1)
        << ended.err;
  }
}
INSTANTIATE_TEST_SUITE_P(Starters, BlockedTeardown,
                         testing::Values(Starter::kByHand, Starter::kMpirun),
                         [](const auto& at) { return name_of(at.param); });

// The main thread of a rank stands in an instruction. The others learn which rank, instruction and
// layer it is, long before the limit of their wait.
class HangingRank : public LongRun, public testing::WithParamInterface<Starter> {};

TEST_P(HangingRank, IsNamedWithItsInstruction) {
  for (const int culprit : {0, 1}) {
    const Interrupted run{.starter = GetParam(),
                          .steps = kEndless,
                          .more = {"--hang_s", "2"},
                          .fault = core::concat("rank=", culprit, ",step=5,point=bwd.layer,action=",
                                                "sleep:", 2 * kLimitMs)};
    const Ended ended = start(launch_of(run))->wait(kLimitMs);
    for (const int code : ended.codes) EXPECT_EQ(code, 21) << ended.err;
    const std::string named = core::concat("rank ", culprit, " (");
    EXPECT_GE(occurrences(ended.err, named), 1) << ended.err;
    EXPECT_GE(occurrences(ended.err, "has not moved for "), 1) << ended.err;
    EXPECT_GE(occurrences(ended.err, "step 5, backward B"), 1) << ended.err;
    EXPECT_GE(occurrences(ended.err, core::concat("rank ", 1 - culprit, " waits in step 5")), 1)
        << ended.err;
  }
}
INSTANTIATE_TEST_SUITE_P(Starters, HangingRank, testing::Values(Starter::kByHand, Starter::kMpirun),
                         [](const auto& at) { return name_of(at.param); });

}  // namespace
}  // namespace fm::system
