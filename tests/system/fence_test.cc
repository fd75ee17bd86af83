// A rank of an older run that wakes up behind a newer one writes nothing but its own black box.
#include <signal.h>

#include <fstream>
#include <map>

#include "core/check.h"
#include "tests/system/long_run.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;

char state_of(pid_t pid) {
  const std::string stat = content_of(core::concat("/proc/", pid, "/stat"));
  const std::size_t behind_name = stat.rfind(") ");
  return behind_name == std::string::npos ? '?' : stat[behind_name + 2];
}

// Every file below the folder: its bytes and when it was written. Not the black box that rank 1 of
// the older run keeps mapped.
std::map<std::string, std::string> everything_in(const fs::path& folder) {
  const fs::path mapped = folder / "blackbox" / "before" / "rank00001.ring";
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path() == mapped) continue;
    const auto written = entry.last_write_time().time_since_epoch().count();
    const std::string bytes = entry.is_regular_file() ? content_of(entry.path()) : "";
    files[entry.path().string()] = core::concat(written, " ", bytes);
  }
  return files;
}

class Fence : public LongRun, public testing::WithParamInterface<const char*> {};

// Rank 1 stops itself in the middle of a save, or between two steps; rank 0, which holds the lock,
// is killed.
TEST_P(Fence, ARankThatWakesUpBehindANewerRunWritesNothing) {
  Interrupted run{.steps = 8, .save_steps = 2, .more = {"--resume", "auto"}};
  run.fault = core::concat("rank=1,step=4,point=", GetParam(), ",action=signal:", SIGSTOP);
  const std::unique_ptr<Job> older = start(launch_of(run));
  const pid_t sleeper = older->rank_pid(1);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return state_of(sleeper) == 'T'; }));
  const pid_t rank0 = older->rank_pid(0);
  ASSERT_EQ(kill(rank0, SIGKILL), 0);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return state_of(rank0) == 'Z'; }));

  resume_to_the_end(run);
  EXPECT_NE(content_of(output() / "LOCK").find("\"generation\":2"), std::string::npos);
  ASSERT_TRUE(fs::exists(output() / "blackbox" / "before" / "rank00001.ring"));
  const auto before = everything_in(output());
  ASSERT_EQ(state_of(sleeper), 'T');
  ASSERT_EQ(kill(sleeper, SIGCONT), 0);
  const Ended ended = older->wait(kLimitMs);
  EXPECT_NE(ended.codes[0], 0) << ended.err;
  EXPECT_EQ(ended.codes[1], 13) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "output_dir belongs to a newer run"), 1) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "generation 2; this run has generation 1"), 1) << ended.err;
  EXPECT_EQ(everything_in(output()), before);
}
INSTANTIATE_TEST_SUITE_P(All, Fence, testing::Values("step.pre", "ckpt.S3", "ckpt.S4"),
                         [](const auto& at) {
                           const std::string point = at.param;
                           return "At" + point.substr(0, 4) + point.substr(5);
                         });

// The lock of rank 0 does not reach the host where the newer run begins.
TEST_F(LongRun, ARunWhoseLockReachesNobodyEndsWhenANewerOneHasTakenTheFolder) {
  const std::unique_ptr<Job> job =
      start(launch_of({.steps = kEndless, .save_steps = 0, .more = {"--resume", "auto"}}));
  wait_for_step(*job, output(), 5);
  write_file(output() / "LOCK", R"({"host":"elsewhere","pid":7,"since":1,"tag":"x","generation":2})"
                                "\n");
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{13, 13})) << ended.err;
  EXPECT_GE(occurrences(ended.err, "is held by host elsewhere, pid 7, "), 1) << ended.err;
  EXPECT_EQ(content_of(output() / "latest"), "") << "no save may come behind it";
}

}  // namespace
}  // namespace fm::system
