// What launchers say in variables and flags reaches the program; what contradicts itself is said
// aloud by whoever meets it. The variables alone, without a launcher: nothing here trains.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kTrain = FM_PROGRAMS "/fmengine-train";

class LaunchWords : public SystemCase {
 protected:
  Ended ask(const Words& variables, Words words) {
    words.insert(words.begin(), kTrain);
    return run({.starter = Starter::kAlone, .words = std::move(words), .variables = variables});
  }

  // Jobs are given one thread; `env` are words for env(1), which comes in between.
  Ended report(Words env, const Words& variables) {
    env.insert(env.begin(), "/usr/bin/env");
    env.insert(env.end(), {kTrain, "--report"});
    return run({.starter = Starter::kAlone, .words = std::move(env), .variables = variables});
  }

  Words plan_words(const Words& more) const {
    Words words{"--plan",
                "--json",
                "--model_config",
                small_model(folder()),
                "--deepspeed_config",
                small_config(folder(), 1)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Ranks of the plan that is printed; 0 when nothing is.
  std::size_t planned_ranks(const Words& variables, const Words& more) {
    const Ended ended = ask(variables, plan_words(more));
    EXPECT_EQ(ended.codes[0], 0) << ended.err;
    return ended.out.empty() ? 0 : nlohmann::json::parse(ended.out).at("ranks").size();
  }

  void expect_one_line(const Ended& ended, const std::string& part) {
    EXPECT_EQ(ended.codes[0], 10) << ended.err;
    EXPECT_EQ(occurrences(ended.err, "\n"), 1) << ended.err;
    EXPECT_EQ(occurrences(ended.err, part), 1) << "not \"" << part << "\": " << ended.err;
  }
};

Words by_hand(const std::string& rank, const Words& more = {}) {
  Words words{"RANK=" + rank, "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29874"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words openmpi(int rank, int ranks, const Words& more = {}) {
  const std::string number = std::to_string(rank);
  const std::string count = std::to_string(ranks);
  Words words{"OMPI_COMM_WORLD_RANK=" + number, "OMPI_COMM_WORLD_SIZE=" + count,
              "OMPI_COMM_WORLD_LOCAL_RANK=" + number, "OMPI_COMM_WORLD_LOCAL_SIZE=" + count};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The others may have been started rightly, or not at all.
TEST_F(LaunchWords, EveryRankSaysWhatIsWrongBeforeTheyHaveMet) {
  const Words wrong = {"--nonsense", "3"};
  const std::string first = "fmengine-train: unknown flag --nonsense";
  const std::string second = "fmengine-train: rank 1: unknown flag --nonsense";
  expect_one_line(ask({"RANK=1"}, wrong), first);  // left over
  expect_one_line(ask({"PMI_RANK=1"}, wrong), first);
  expect_one_line(ask(openmpi(0, 2, {"RANK=1"}), wrong), first);
  expect_one_line(ask(openmpi(1, 2, {"RANK=0"}), wrong), second);
  expect_one_line(ask(by_hand("0"), wrong), first);
  expect_one_line(ask(by_hand("1"), wrong), second);
  const std::string nothing = (folder() / "nothing.json").string();
  for (const Words& variables : {openmpi(1, 2), by_hand("1")}) {
    Words words = plan_words({});
    words[std::ranges::find(words, "--deepspeed_config") - words.begin() + 1] = nothing;
    words.erase(words.begin(), words.begin() + 2);  // a training, not a plan
    expect_one_line(ask(variables, words), "fmengine-train: rank 1: ");
    expect_one_line(ask(variables, words), nothing);
  }
}

TEST_F(LaunchWords, VariablesThatContradictThemselvesAreSaidByEveryRank) {
  for (const Words& words : {Words{"--report"}, plan_words({})}) {
    expect_one_line(ask({"RANK=1", "WORLD_SIZE=2"}, words), "MASTER_ADDR=unset");
    expect_one_line(ask({"RANK=0"}, words), "WORLD_SIZE=unset");
    expect_one_line(ask(openmpi(0, 1, {"WORLD_SIZE=8"}), words), "WORLD_SIZE=8, mpirun started 1");
    expect_one_line(ask({"WORLD_SIZE=4"}, words), "(WORLD_SIZE=4)");
    expect_one_line(ask(by_hand("2"), words), "(RANK=2, WORLD_SIZE=2)");
    expect_one_line(ask(by_hand("abc"), words), "RANK=\"abc\"");
    expect_one_line(ask(by_hand("1", {"LOCAL_RANK=5", "LOCAL_WORLD_SIZE=2"}), words),
                    "local rank 5");
    expect_one_line(
        ask({"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0"}, words),
        "MASTER_PORT=0");
  }
  expect_one_line(ask({}, {"--report", "--world_size", "4"}), "(WORLD_SIZE=4)");
}

TEST_F(LaunchWords, ThePlanIsForTheRanksThatWereStarted) {
  EXPECT_EQ(planned_ranks({}, {}), 1U);
  EXPECT_EQ(planned_ranks(openmpi(0, 4), {}), 4U);
  EXPECT_EQ(planned_ranks(openmpi(1, 4), {}), 0U);
  EXPECT_EQ(planned_ranks(by_hand("0"), {}), 2U);
  EXPECT_EQ(planned_ranks(openmpi(0, 4), {"--plan_ranks", "2"}), 2U);
}

TEST_F(LaunchWords, RankFlagsCountWhereTheEnvironmentSaysNothing) {
  const Words master = {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=29874"};
  EXPECT_EQ(planned_ranks(master, {"--rank", "0", "--world_size", "2"}), 2U);
  EXPECT_EQ(planned_ranks(master, {"--rank", "1", "--world_size", "2"}), 0U);
  EXPECT_EQ(planned_ranks(by_hand("0"), {"--rank", "1", "--world_size", "4"}), 2U);
  Words local = master;
  local.emplace_back("LOCAL_WORLD_SIZE=2");
  expect_one_line(ask(local, plan_words({"--rank=0", "--world_size=2", "--local_rank=5"})),
                  "local rank 5");
  EXPECT_EQ(planned_ranks(local, {"--rank=0", "--world_size=2", "--local_rank=-1"}), 2U);
}

TEST_F(LaunchWords, RanksOfOneHostShareItsCores) {
  const int ranks = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) + 1;  // more than cores
  const Ended shared = report({"-u", "OMP_NUM_THREADS"}, openmpi(0, ranks));
  EXPECT_EQ(shared.codes[0], 0) << shared.err;
  EXPECT_EQ(occurrences(shared.out, core::concat("threads    ", ranks, " ranks x 1 thread: ")), 1)
      << shared.out;
}

TEST_F(LaunchWords, OmpNumThreadsIsTakenOrRefused) {
  const Ended two = report({"OMP_NUM_THREADS=2,1"}, {});
  EXPECT_EQ(occurrences(two.out, "threads    1 rank x 2 threads: OMP_NUM_THREADS "), 1) << two.out;
  expect_one_line(report({"OMP_NUM_THREADS=100000"}, {}), "(OMP_NUM_THREADS=\"100000\")");
}

}  // namespace
}  // namespace fm::system
