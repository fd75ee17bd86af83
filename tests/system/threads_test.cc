// How many threads a rank computes with, and where, under the launchers themselves.
#include "tests/oracle/python.h"
#include "tests/system/limited_group.h"
#include "tests/system/system_case.h"

namespace fm::system {
namespace {

class Threads : public SystemCase {
 protected:
  // What --report says behind `name`, of the first rank that spoke. OMP_NUM_THREADS: `omp`, or
  // unset where it is empty.
  std::string reported(const std::string& name, std::vector<std::string> launcher,
                       const std::string& omp = "") {
    std::vector<std::string> words{"/usr/bin/env"};
    if (omp.empty()) {
      words.insert(words.end(), {"-u", "OMP_NUM_THREADS"});
    } else {
      words.push_back("OMP_NUM_THREADS=" + omp);
    }
    words.insert(words.end(), launcher.begin(), launcher.end());
    words.insert(words.end(), {FM_PROGRAMS "/fmengine-train", "--report"});
    const Ended ended = run_well({.starter = Starter::kAlone, .words = words, .variables = {}});
    const std::size_t begin = ended.out.find(name + " ");
    EXPECT_NE(begin, std::string::npos) << ended.out << ended.err;
    if (begin == std::string::npos) return "";
    const std::string line = ended.out.substr(begin, ended.out.find('\n', begin) - begin);
    return line.substr(line.find_first_not_of(' ', name.size()));
  }
  static std::vector<std::string> mpirun(int ranks, std::vector<std::string> options = {}) {
    std::vector<std::string> words{FM_MPIRUN, "-np", std::to_string(ranks)};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  static std::vector<std::string> torchrun(int ranks) {
    return {oracle::python(),     "-m",          "torch.distributed.run",
            "--standalone",       "--no-python", "--nproc-per-node",
            std::to_string(ranks)};
  }
  static bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

constexpr const char* kAside = "; OMP_NUM_THREADS=1 was torchrun's, not yours";

TEST_F(Threads, OneRankUnderMpirunHasTheWholeHost) {
  const std::string alone = reported("threads", {});
  EXPECT_TRUE(holds(alone, "shared out")) << alone;
  const std::string one = reported("threads", mpirun(1));
  EXPECT_EQ(one.substr(0, one.find(':')), alone.substr(0, alone.find(':'))) << one;
  EXPECT_EQ(reported("affinity", mpirun(1)), reported("affinity", {}));
  // Through a wrapper, too.
  const std::vector<std::string> wrapped = mpirun(1, {"/bin/sh", "-c", "\"$@\"; true", "sh"});
  EXPECT_EQ(reported("affinity", wrapped), reported("affinity", {}));
}

TEST_F(Threads, ABindingThatWasAskedForStays) {
  if (holds(reported("threads", {}), " x 1 thread")) GTEST_SKIP() << "needs two cores";
  const std::string bound = reported("threads", mpirun(1, {"--bind-to", "core"}));
  EXPECT_TRUE(bound.starts_with("1 rank x 1 thread: bound to ")) << bound;
  const std::string two = reported("threads", {"/usr/bin/taskset", "-c", "0"});
  EXPECT_TRUE(two.starts_with("1 rank x 1 thread: bound to 0")) << two;
}

TEST_F(Threads, TheJobIsWhatMpirunMayUse) {
  std::vector<std::string> words = mpirun(1);
  words.insert(words.begin(), {"/usr/bin/taskset", "-c", "0"});
  const std::string one = reported("threads", words);
  EXPECT_TRUE(one.starts_with("1 rank x 1 thread: 1 core shared out")) << one;
}

// One CPU's worth of time.
const LimitedGroup::Limit kOneCpu = {.controller = "cpu",
                                     .file_1 = "cpu.cfs_quota_us",
                                     .value_1 = "100000",
                                     .file_2 = "cpu.max",
                                     .value_2 = "100000 100000"};

TEST_F(Threads, ACpuLimitOfTheControlGroupIsSharedOut) {
  if (holds(reported("threads", {}), " x 1 thread")) GTEST_SKIP() << "needs two cores";
  const LimitedGroup group(kOneCpu);
  if (!group.made()) GTEST_SKIP() << "no control group with a CPU limit can be made here";
  const std::string one = reported("threads", group.words());
  EXPECT_TRUE(one.starts_with("1 rank x 1 thread: ")) << one;
  EXPECT_TRUE(holds(one, " cores, CPU limit 1, shared out")) << one;
  const std::string two = reported("threads", group.words(), "2");
  EXPECT_TRUE(holds(two, "x 2 threads: OMP_NUM_THREADS, beyond the CPU limit 1")) << two;
}

TEST_F(Threads, OmpNumThreadsIsHonouredAndGetsItsCores) {
  const std::string two = reported("threads", mpirun(1), "2");
  EXPECT_TRUE(two.starts_with("1 rank x 2 threads: OMP_NUM_THREADS")) << two;
  EXPECT_EQ(reported("affinity", mpirun(1), "2"), reported("affinity", {}));
}

TEST_F(Threads, TheOneOfTorchrunIsPutAsideAndTheUsersIsNot) {
  const std::string default_of_two = reported("threads", torchrun(2));
  EXPECT_TRUE(holds(default_of_two, std::string("shared out") + kAside)) << default_of_two;
  const std::string users = reported("threads", torchrun(2), "1");
  EXPECT_TRUE(users.starts_with("2 ranks x 1 thread: OMP_NUM_THREADS")) << users;
  EXPECT_FALSE(holds(users, kAside)) << users;
}

}  // namespace
}  // namespace fm::system
