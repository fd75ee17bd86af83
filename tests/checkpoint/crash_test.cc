// Kill -9 inside every step of the protocol: what was durable before is loadable afterwards, and
// the next run starts clean.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tuple>

#include "checkpoint/output_lock.h"
#include "core/fault.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

using Where = SaveCourse::Where;
constexpr int kRanks = 3;

// A process that saves step after step and is killed at `point` of the last.
void save_in_a_doomed_process(const std::filesystem::path& output, std::int64_t step,
                              const std::string& point, Where where = Where::kHere) {
  const pid_t child = ::fork();
  if (child == 0) {
    core::arm_faults(core::concat("step=", step, ",point=", point, ",action=kill"));
    const OutputLock lock(output);
    testing::save_state(output, step, kRanks, {.keep_last = 1, .where = where});
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point;
}

class Crash : public ::testing::TestWithParam<std::tuple<int, Where>> {
 protected:
  static int number() { return std::get<0>(GetParam()); }
  std::string point() const { return "ckpt.S" + std::to_string(number()); }
  static Where where() { return std::get<1>(GetParam()); }
  // The rename of S7 is the moment from which the new one counts.
  bool published() const { return number() > 7; }
  testing::ScratchFolder folder_;
};

TEST_P(Crash, BeforeTheFirstSaveIsAFreshStart) {
  save_in_a_doomed_process(folder_.path(), 1, point(), where());
  EXPECT_EQ(testing::load_state(folder_.path(), 2), published() ? 1 : -1);
}

TEST_P(Crash, ThePreviousCheckpointIsLoadable) {
  ASSERT_TRUE(testing::save_state(folder_.path(), 1, kRanks).durable);
  save_in_a_doomed_process(folder_.path(), 2, point(), where());
  EXPECT_EQ(testing::load_state(folder_.path(), 2), published() ? 2 : 1);
  const OutputLock next(folder_.path());
  EXPECT_EQ(testing::listing(folder_.path()).find(".tmp-"), std::string::npos);
  EXPECT_TRUE(testing::save_state(folder_.path(), 2, kRanks, 1).durable);
  EXPECT_EQ(testing::listing(folder_.path()), "LOCK global_step2 latest");
}

TEST_P(Crash, TheSameStepWrittenAgainIsAlwaysThere) {
  ASSERT_TRUE(testing::save_state(folder_.path(), 2, kRanks).durable);
  save_in_a_doomed_process(folder_.path(), 2, point(), where());
  EXPECT_EQ(testing::load_state(folder_.path(), 2), 2);
}

// Between the exchange of the names and the deletion of what had the name before.
TEST(CrashOverAnotherFolder, ItIsPutAsideBeforeTheNextStartSweeps) {
  const testing::ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "global_step5");
  std::ofstream(folder.path() / "global_step5" / "layer_00-model_states.pt") << "DeepSpeed's";
  // Without an exchange the point is not reached: the next one comes at once.
  save_in_a_doomed_process(folder.path(), 5, "ckpt.S7.exchanged,action=kill;point=ckpt.S8");
  { const OutputLock next(folder.path()); }
  std::string found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.path().extension() == ".pt") found = testing::file_content(entry.path());
  }
  EXPECT_EQ(found, "DeepSpeed's") << testing::listing(folder.path());
  EXPECT_EQ(testing::load_state(folder.path(), 2), 5);
}

TEST(CrashOverTheSameStep, TheOlderOneIsSweptAndTheNewOneLoads) {
  const testing::ScratchFolder folder;
  ASSERT_TRUE(testing::save_state(folder.path(), 5, kRanks).durable);
  save_in_a_doomed_process(folder.path(), 5, "ckpt.S7.exchanged");
  EXPECT_NE(testing::listing(folder.path()).find(".tmp-global_step5-"), std::string::npos);
  { const OutputLock next(folder.path()); }
  EXPECT_EQ(testing::listing(folder.path()), "LOCK global_step5 latest");
  EXPECT_EQ(testing::load_state(folder.path(), 2), 5);
}

INSTANTIATE_TEST_SUITE_P(EveryStep, Crash,
                         ::testing::Combine(::testing::Range(0, 11),
                                            ::testing::Values(Where::kHere, Where::kThread)),
                         [](const auto& at) {
                           return core::concat(
                               "S", std::get<0>(at.param),
                               std::get<1>(at.param) == Where::kThread ? "InAThread" : "");
                         });

}  // namespace
}  // namespace fm::checkpoint
