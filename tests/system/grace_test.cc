// A save that would be killed before its end is not begun.
#include <signal.h>

#include "core/check.h"
#include "tests/system/long_run.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

int saved_step(const std::filesystem::path& output) {
  const std::string latest = content_of(output / "latest");
  const std::size_t prefix = std::string("global_step").size();
  return latest.size() > prefix ? std::stoi(latest.substr(prefix)) : -1;
}

// A save takes 1.1 s at least, on whatever machine, and 1 s is given.
TEST_F(LongRun, ATermWithTooLittleTimeForASaveEndsAtOnceAndSaysWhatIsLost) {
  Interrupted run{.steps = kEndless, .save_steps = 0, .more = {"--grace_s", "1"}};
  run.fault = "rank=1,point=ckpt.S4,action=sleep:1100";
  const std::unique_ptr<Job> job = start(launch_of(run));
  wait_for_step(*job, output(), 2);
  EXPECT_EQ(occurrences(job->written("out"), "how long a save takes shows after the first"), 1);
  ASSERT_EQ(kill(job->rank_pid(1), SIGUSR1), 0);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return saved_step(output()) > 0; }));
  const int saved = saved_step(output());
  wait_for_step(*job, output(), saved + 5);
  ASSERT_EQ(kill(job->rank_pid(0), SIGTERM), 0);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{75, 75})) << ended.out << ended.err;
  EXPECT_EQ(saved_step(output()), saved);
  EXPECT_EQ(occurrences(ended.err, "and would not end in the 1.0 s that --grace_s gives"), 1)
      << ended.err;
  EXPECT_EQ(occurrences(ended.err, "no save was begun"), 1) << ended.err;
  const int last = steps_in(output()).rbegin()->first;
  EXPECT_EQ(occurrences(ended.err,
                        core::concat("the newest checkpoint is ", output().string(), "/global_step",
                                     saved, ", ", last - saved, " steps are lost")),
            1)
      << ended.err;

  // The time of that save stands at the next start.
  run.steps = saved + 20;
  const Ended second = resume_to_the_end(run);
  EXPECT_EQ(occurrences(second.out, core::concat("resuming at step ", saved, ",")), 1);
  EXPECT_EQ(occurrences(second.out, "\na save takes "), 1) << second.out;
  EXPECT_EQ(occurrences(second.out, "; --grace_s gives 1.0 s after SIGTERM"), 1) << second.out;
}

// mpirun gives its ranks 1 s after its own SIGTERM. Nothing ends them behind somebody else's, so
// they save, however long that takes.
TEST_F(LongRun, ATermOfSomebodyElseThanTheLauncherIsFollowedByASaveOfAnyLength) {
  Interrupted run{.starter = Starter::kMpirun, .steps = kEndless, .save_steps = 0};
  run.fault = "rank=1,point=ckpt.S4,action=sleep:1100";
  const std::unique_ptr<Job> job = start(launch_of(run));
  wait_for_step(*job, output(), 2);
  ASSERT_EQ(kill(job->rank_pid(1), SIGUSR1), 0);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return saved_step(output()) > 0; }));
  wait_for_step(*job, output(), saved_step(output()) + 5);
  EXPECT_EQ(occurrences(job->written("err"), "would not end in the 1.0 s that mpirun gives"), 1);
  ASSERT_EQ(kill(job->rank_pid(1), SIGTERM), 0);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, std::vector<int>{75}) << ended.err;
  EXPECT_EQ(saved_step(output()), steps_in(output()).rbegin()->first);
}

}  // namespace
}  // namespace fm::system
