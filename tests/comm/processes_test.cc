// Real processes under mpirun, torchrun and by hand: the collective cases, and every way a rank
// can end.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <iterator>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/process_job.h"

namespace fm::comm {
namespace {

using Words = std::vector<std::string>;

// Whether rank 0 or a peer says what both do. Which of them notices first is a matter of timing;
// the other one may end with the words of the first.
bool names_both(const std::string& text, const std::string& rank0s, const std::string& peers) {
  const auto says = [&](const std::string& own, const std::string& theirs, const char* rank) {
    const std::string words = core::concat(" is ", own, " here, ", theirs, " at rank ", rank, " ");
    return std::regex_search(text, std::regex(words));
  };
  return says(rank0s, peers, "[1-9]") || says(peers, rank0s, "0");
}

// (starter, ranks, how ranks move data)
class World : public testing::TestWithParam<std::tuple<Starter, int, const char*>> {
 protected:
  static Starter starter() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
};

std::string name_of_world(
    const testing::TestParamInfo<std::tuple<Starter, int, const char*>>& info) {
  return core::concat(name_of(std::get<0>(info.param)), std::get<1>(info.param),
                      std::get<2>(info.param));
}

TEST_P(World, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  const std::string how = std::get<2>(GetParam());
  ProcessJob job(starter(), ranks(), {"cases", how});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
  EXPECT_EQ(occurrences(job.output(), "cases hold on "), ranks()) << job.output();
  EXPECT_EQ(occurrences(job.output(), "cases hold on shared memory beside "),
            how == "memory" ? ranks() : 0)
      << job.output();
  EXPECT_EQ(occurrences(job.output(), "fmengine: "), 0) << job.output();
}
INSTANTIATE_TEST_SUITE_P(Cases, World,
                         testing::Combine(testing::Values(Starter::kByHand, Starter::kMpirun),
                                          testing::Values(2, 3, 4),
                                          testing::Values("memory", "messages")),
                         name_of_world);
INSTANTIATE_TEST_SUITE_P(CasesUnderTorchrun, World,
                         testing::Combine(testing::Values(Starter::kTorchrun), testing::Values(2),
                                          testing::Values("memory", "messages")),
                         name_of_world);

// (starter, ranks, victim, mode): "reduce" dies inside a collective, "idle" outside of any.
class Killed : public testing::TestWithParam<std::tuple<Starter, int, int, const char*>> {};

struct Kill {
  Starter starter = Starter::kByHand;
  int ranks = 2;
  int victim = 0;
  std::string mode;
  std::vector<std::string> hosts = {};
};

void expect_all_to_go(const Kill& kill_of) {
  const auto& [starter, ranks, victim, mode, hosts] = kill_of;
  ProcessJob job(starter, ranks, {mode}, {.hosts = hosts});
  for (int rank = 0; rank < ranks; ++rank) job.rank_pid(rank);
  const pid_t victim_pid = job.rank_pid(victim);
  ASSERT_EQ(kill(victim_pid, SIGKILL), 0);
  EXPECT_TRUE(job.all_ranks_gone(kWatchdogMs)) << job.output();  // every limit is far
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();

  const std::string line = core::concat("fmengine: rank ", victim, " (host ");
  const std::string end = core::concat(", pid ", victim_pid, ") ended without farewell");
  if (starter == Starter::kByHand) {
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(job.exit_codes()[static_cast<std::size_t>(rank)], rank == victim ? 128 + 9 : 20);
      if (rank == victim) continue;
      EXPECT_EQ(occurrences(job.output(rank), line), 1) << job.output(rank);
      EXPECT_EQ(occurrences(job.output(rank), end), 1) << job.output(rank);
    }
  } else {
    EXPECT_NE(job.exit_codes()[0], 0);
    // The launcher may end a survivor before it spoke, but not all of several; torchrun, which can
    // be sooner than the only one, names the rank itself.
    const std::string torchrun = core::concat("local_rank: ", victim, " (pid: ", victim_pid, ")");
    const bool spoke = occurrences(job.output(), line) > 0 && occurrences(job.output(), end) > 0;
    const bool named = starter == Starter::kTorchrun && occurrences(job.output(), torchrun) > 0;
    EXPECT_TRUE(spoke || named) << job.output();
  }
  EXPECT_EQ(occurrences(job.output(), "own error"), 0) << job.output();
}

TEST_P(Killed, EveryProcessEndsBeforeAnyLimitAndStderrNamesTheRank) {
  const auto [starter, ranks, victim, mode] = GetParam();
  expect_all_to_go({.starter = starter, .ranks = ranks, .victim = victim, .mode = mode});
}

std::string name_of_kill(const testing::TestParamInfo<Killed::ParamType>& info) {
  return core::concat(name_of(std::get<0>(info.param)), std::get<1>(info.param), "Rank",
                      std::get<2>(info.param), "In", std::get<3>(info.param));
}

const auto kModes = testing::Values("reduce", "idle");
const auto kLocal = testing::Values(Starter::kByHand, Starter::kMpirun);
INSTANTIATE_TEST_SUITE_P(OfTwo, Killed,
                         testing::Combine(kLocal, testing::Values(2), testing::Values(0, 1),
                                          kModes),
                         name_of_kill);
INSTANTIATE_TEST_SUITE_P(OfThree, Killed,
                         testing::Combine(kLocal, testing::Values(3), testing::Values(0, 1, 2),
                                          testing::Values("reduce")),
                         name_of_kill);
INSTANTIATE_TEST_SUITE_P(UnderTorchrun, Killed,
                         testing::Combine(testing::Values(Starter::kTorchrun), testing::Values(2),
                                          testing::Values(0, 1), testing::Values("reduce")),
                         name_of_kill);

// Ranks of several hosts: FME_HOST of every rank.
class Hosts : public testing::TestWithParam<Starter> {};

TEST_P(Hosts, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  for (const Words& hosts :
       {Words{"a", "a", "b", "b"}, Words{"a", "b", "b"}, Words{"a", "b", "c", "c", "c"}}) {
    const int ranks = static_cast<int>(hosts.size());
    ProcessJob job(GetParam(), ranks, {"cases"}, {.hosts = hosts});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
    EXPECT_EQ(occurrences(job.output(), "cases hold on shared memory on each of "), ranks)
        << job.output();
    EXPECT_EQ(occurrences(job.output(), "fmengine: "), 0) << job.output();
  }
}

TEST_P(Hosts, WithOneRankEachUseMessages) {
  ProcessJob job(GetParam(), 2, {"cases"}, {.hosts = {"a", "b"}});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
  EXPECT_EQ(
      occurrences(job.output(), ", 2 ranks, no shared memory: every rank has a host to itself"), 2)
      << job.output();
}

TEST_P(Hosts, ADeadRankOfAnyHostEndsAllOfThem) {
  for (const int victim : {0, 1, 3}) {
    expect_all_to_go({.starter = GetParam(),
                      .ranks = 4,
                      .victim = victim,
                      .mode = victim == 1 ? "idle" : "reduce",
                      .hosts = {"a", "a", "b", "b"}});
  }
}

TEST_P(Hosts, AWaitPastItsLimitNamesThePeerAndTheVerb) {
  for (const Words& hosts : {Words{"a", "a", "b"}, Words{"a", "b", "b"}}) {
    ProcessJob job(GetParam(), 3, {"hang"}, {.hosts = hosts});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 21) << job.output();
    EXPECT_GE(occurrences(job.output(), "waited 500 ms for rank 1 (host "), 1) << job.output();
    EXPECT_GE(occurrences(job.output(), "in reduce_scatter"), 1) << job.output();
  }
}

// Rank 1 waits for rank 0, rank 2 for what rank 1 will have from it.
TEST_P(Hosts, AWaitForTheNextHopNamesTheRankThatAllWaitFor) {
  ProcessJob job(GetParam(), 3, {"gather"}, {.hosts = {"a", "b", "b"}});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 21) << job.output();
  EXPECT_GE(occurrences(job.output(), "waited 500 ms for rank 0 (host "), 1) << job.output();
  EXPECT_EQ(occurrences(job.output(), "waited 500 ms for rank 1 (host "), 0) << job.output();
}

TEST_P(Hosts, DisagreementAboutTheVerbNamesBoth) {
  ProcessJob job(GetParam(), 3, {"verbs"}, {.hosts = {"a", "b", "b"}});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 22) << job.output();
  EXPECT_TRUE(names_both(job.output(), "all_reduce of [0-9]+ bytes", "broadcast of [0-9]+ bytes"))
      << job.output();
}

INSTANTIATE_TEST_SUITE_P(All, Hosts, testing::Values(Starter::kByHand, Starter::kMpirun),
                         [](const auto& starter) { return name_of(starter.param); });

class Ended : public testing::TestWithParam<Starter> {};

TEST_P(Ended, ARankThatStopsWithAnErrorGivesEveryRankItsCodeAndItsWords) {
  for (const int culprit : {0, 2}) {
    ProcessJob job(GetParam(), 3, {"stop", std::to_string(culprit), "11"});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 11) << job.output();
    EXPECT_EQ(occurrences(job.output(), "own error: the file is short"), 1) << job.output();
    EXPECT_GE(occurrences(job.output(), core::concat("fmengine: rank ", culprit, " (host ")), 1);
    EXPECT_GE(occurrences(job.output(), " reports exit code 11: the file is short"), 1)
        << job.output();
  }
}

TEST_P(Ended, ARankThatExitsWithoutFarewellIsNamed) {
  ProcessJob job(GetParam(), 3, {"exit", "1"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  EXPECT_NE(job.exit_codes()[0], 0);
  EXPECT_GE(occurrences(job.output(), "fmengine: rank 1 (host "), 1) << job.output();
  EXPECT_GE(occurrences(job.output(), "ended without farewell"), 1) << job.output();
}

TEST_P(Ended, AWaitPastItsLimitNamesThePeerAndTheVerb) {
  ProcessJob job(GetParam(), 2, {"hang"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 21) << job.output();
  EXPECT_GE(occurrences(job.output(), "waited 500 ms for rank 1 (host "), 1) << job.output();
  EXPECT_GE(occurrences(job.output(), "in reduce_scatter"), 1) << job.output();
}

// (starter, rank): SIGSTOP, for ever. The stopped rank ends as soon as it goes on.
class Stopped : public testing::TestWithParam<std::tuple<Starter, int>> {};

TEST_P(Stopped, ARankIsNamedByTheOthersWhichEndWithoutIt) {
  const auto [starter, victim] = GetParam();
  ProcessJob job(starter, 3, {"stopped"});
  for (int rank = 0; rank < 3; ++rank) job.rank_pid(rank);
  const pid_t pid = job.rank_pid(victim);
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  const std::string name = core::concat("fmengine: rank ", victim, " (host ");
  const std::string end =
      core::concat(", pid ", pid, ") has been stopped (SIGSTOP or Ctrl-Z) for ");
  const Deadline deadline(kWatchdogMs);
  while (occurrences(job.output(), end) < 2 && !deadline.passed() && starter == Starter::kByHand) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (starter == Starter::kByHand) {
    ASSERT_EQ(kill(pid, SIGCONT), 0);
  }
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  EXPECT_GE(occurrences(job.output(), name), 1) << job.output();
  EXPECT_GE(occurrences(job.output(), end), 1) << job.output();
  EXPECT_GE(occurrences(job.output(), "is stopped (SIGSTOP or Ctrl-Z); the others wait"), 1);
  for (std::size_t i = 0; i < job.exit_codes().size(); ++i) {
    const bool stopped = starter == Starter::kByHand && static_cast<int>(i) == victim;
    const int code = job.exit_codes()[i];
    EXPECT_TRUE(stopped ? code == 20 || code == 21 : code == 21) << i << ": " << code;
  }
}
INSTANTIATE_TEST_SUITE_P(EachRank, Stopped,
                         testing::Combine(testing::Values(Starter::kByHand, Starter::kMpirun),
                                          testing::Values(0, 2)),
                         [](const auto& at) {
                           return core::concat(name_of(std::get<0>(at.param)), "Rank",
                                               std::get<1>(at.param));
                         });

TEST_P(Ended, ARankThatHangsInAnInstructionIsNamedWithItsPlace) {
  ProcessJob job(GetParam(), 3, {"stuck"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 21) << job.output();
  EXPECT_GE(occurrences(job.output(), "fmengine: rank 1 (host "), 1) << job.output();
  EXPECT_GE(occurrences(job.output(),
                        " s: step 3, B0.1, layers.1.mlp; ranks 0, 2 wait in "
                        "all_reduce; "),
            1)
      << job.output();
}

// Longer than the limit of the wait in which it happens.
TEST(Suspended, TimeInWhichTheWholeJobStoodStillIsNoWaiting) {
  for (const char* const how : {"memory", "messages"}) {
    ProcessJob job(Starter::kByHand, 2, {"sum", how});
    const pid_t ranks[] = {job.rank_pid(0), job.rank_pid(1)};
    ASSERT_TRUE(job.await_file("waits.0")) << job.output();
    for (const pid_t rank : ranks) ASSERT_EQ(kill(rank, SIGSTOP), 0);
    std::this_thread::sleep_for(std::chrono::seconds(6));
    for (const pid_t rank : ranks) ASSERT_EQ(kill(rank, SIGCONT), 0);
    job.make_file("go");
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
  }
}

// A rank that did not sleep would look some hundred times in a millisecond. Nobody can sleep until
// a message of MPI comes: its naps take 50 us at least, and the clock is looked at before and
// after.
TEST_P(Ended, RanksOfOneCoreSleepWhileTheyWait) {
  for (const char* const how : {"memory", "messages"}) {
    ProcessJob job(GetParam(), 3, {"idly", how});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
    const std::string text = job.output();
    const std::regex looks("looked ([0-9]+) times in ([0-9]+) ms");
    const std::sregex_iterator first(text.begin(), text.end(), looks);
    EXPECT_EQ(std::distance(first, std::sregex_iterator()), 3) << text;
    const bool by_mpi = GetParam() == Starter::kMpirun && std::string(how) == "messages";
    for (auto at = first; at != std::sregex_iterator(); ++at) {
      const int spent_ms = std::stoi((*at)[2]);
      EXPECT_LE(std::stoi((*at)[1]), by_mpi ? 200 + 40 * spent_ms : 20 + spent_ms / 20)
          << how << '\n'
          << text;
    }
  }
}

// As a batch system sets it; the memory that ranks share is a file to the kernel.
TEST(FileLimit, TooLowForSharedMemoryIsOneClearError) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{rlim_t{1} << 30, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  ProcessJob job(Starter::kByHand, 2, {"cases"});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 25) << job.output();
  EXPECT_GE(occurrences(job.output(), "pass --shm false"), 1) << job.output();
}

// LibTorch, through which ranks reach the store of torchrun's agent, has more code than that.
TEST(AddressSpace, TooLittleForTheMeetingIsOneClearErrorOfEveryRank) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit low{rlim_t{300} << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  ProcessJob job(Starter::kByHand, 2, {"cases"},
                 {.variables = {"TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_USE_AGENT_STORE=True"}});
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 25) << job.output();
  EXPECT_EQ(occurrences(job.output(), "own error: the library "), 2) << job.output();
  EXPECT_EQ(occurrences(job.output(), "raise `ulimit -v`"), 2) << job.output();
}

TEST_P(Ended, ASplitThatARankDoesNotReachNamesIt) {
  ProcessJob job(GetParam(), 3, {"split"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 21) << job.output();
  EXPECT_GE(occurrences(job.output(), "waited 500 ms for rank 1 (host "), 1) << job.output();
  EXPECT_GE(occurrences(job.output(), "in split"), 1) << job.output();
}

TEST_P(Ended, DisagreementAboutTheSizeNamesBoth) {
  for (const char* const floats : {"250", "400"}) {  // too short, too long
    ProcessJob job(GetParam(), 2, {"mismatch", floats});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 22) << job.output();
    const std::string both = core::concat("is send/receive of 1200 bytes here, send/receive of ",
                                          4 * std::stoi(floats), " bytes at rank 1");
    EXPECT_GE(occurrences(job.output(), both), 1) << job.output();
  }
}

TEST_P(Ended, DisagreementAboutTheVerbNamesBoth) {
  ProcessJob job(GetParam(), 2, {"verbs"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 22) << job.output();
  EXPECT_TRUE(names_both(job.output(), "all_reduce of 1200 bytes", "broadcast of 1200 bytes"))
      << job.output();
}

TEST_P(Ended, DisagreementAboutTheTypeNamesBoth) {
  for (const char* const how : {"memory", "messages"}) {
    ProcessJob job(GetParam(), 2, {"types", how});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    for (const int code : job.exit_codes()) EXPECT_EQ(code, 22) << job.output();
    EXPECT_TRUE(names_both(job.output(), "all_reduce of 1200 bytes of fp32",
                           "all_reduce of 1200 bytes of int32"))
        << job.output();
  }
}

TEST_P(Ended, RanksThatPartAtDifferentTimesAreNotReportedDead) {
  ProcessJob job(GetParam(), 3, {"part"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
  EXPECT_EQ(job.output(), "");
}

INSTANTIATE_TEST_SUITE_P(All, Ended, testing::Values(Starter::kByHand, Starter::kMpirun),
                         [](const auto& starter) { return name_of(starter.param); });

TEST(Rendezvous, TheRanksThatDoNotComeAreNamed) {
  ProcessJob job(Starter::kByHand, 3, {"absent", "1"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  EXPECT_EQ(job.exit_codes()[0], 14) << job.output();
  EXPECT_EQ(job.exit_codes()[2], 14) << job.output();
  EXPECT_GE(occurrences(job.output(0), "no sign of rank 1"), 1) << job.output();
}

TEST(Rendezvous, ARankThatEndsBeforeItIsConnectedIsNamedAtOnce) {
  ProcessJob job(Starter::kByHand, 3, {"desert", "1"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();  // the limit is far
  EXPECT_EQ(job.exit_codes(), (std::vector<int>{20, 0, 20})) << job.output();
  for (const int rank : {0, 2}) {
    EXPECT_EQ(occurrences(job.output(rank), "fmengine: rank 1 (host "), 1) << job.output();
    EXPECT_EQ(occurrences(job.output(rank), "ended without farewell"), 1) << job.output();
  }
}

// A job token is in the environment of every rank.
class WithToken : public testing::TestWithParam<Starter> {};

TEST_P(WithToken, RanksMeetAndNothingShowsIt) {
  const std::string token = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  ProcessJob job(GetParam(), 2, {"cases", "messages"},
                 {.variables = {"FME_JOB_TOKEN=" + token}, .hosts = {"a", "b"}});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  for (const int code : job.exit_codes()) EXPECT_EQ(code, 0) << job.output();
  EXPECT_EQ(occurrences(job.output(), "cases hold on "), 2) << job.output();
  EXPECT_EQ(occurrences(job.output(), "0f1e2d"), 0) << job.output();
}

TEST_P(WithToken, ThatIsNoneRanksEndAtOnce) {
  ProcessJob job(GetParam(), 2, {"cases"}, {.variables = {"FME_JOB_TOKEN=0f1e2d"}});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();  // the limit is far
  EXPECT_NE(job.exit_codes()[0], 0) << job.output();
  EXPECT_GE(occurrences(job.output(), "FME_JOB_TOKEN must hold the job token"), 1) << job.output();
  EXPECT_EQ(occurrences(job.output(), "0f1e2d"), 0) << job.output();
}

INSTANTIATE_TEST_SUITE_P(Starters, WithToken,
                         testing::Values(Starter::kByHand, Starter::kMpirun, Starter::kTorchrun),
                         [](const auto& starter) { return name_of(starter.param); });

TEST(Interface, OfThisHostServesAndAnotherIsRefusedWithTheListOfThoseHere) {
  for (const Starter starter : {Starter::kByHand, Starter::kMpirun}) {
    ProcessJob job(starter, 2, {"cases", "messages"}, {.variables = {"FME_INTERFACE=no1,lo"}});
    ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
    EXPECT_EQ(job.exit_codes()[0], 0) << job.output();
    ProcessJob other(starter, 2, {"cases"}, {.variables = {"FME_INTERFACE=no1,no2"}});
    ASSERT_TRUE(other.wait(kWatchdogMs)) << other.output();
    EXPECT_EQ(other.exit_codes()[0], 10) << other.output();
    EXPECT_GE(occurrences(other.output(), "(no1,no2; here are lo 127.0.0.1"), 1) << other.output();
  }
}

}  // namespace
}  // namespace fm::comm
