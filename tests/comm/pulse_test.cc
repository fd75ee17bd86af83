// What the watch concludes from heartbeats.
#include "comm/meet/pulse.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/comm/clock.h"

namespace fm::comm {
namespace {

constexpr int kStopMs = 10'000;

TEST(Silence, OfAStoppedRankOfThisHostIsNamedFirstAndEndsTheRunLater) {
  const auto at = [](int silent_ms) {
    return judge_silence(silent_ms, PeerState::kStopped, kStopMs);
  };
  EXPECT_EQ(at(1'000), Finding::kNothing);
  EXPECT_EQ(at(2'000), Finding::kName);
  EXPECT_EQ(at(9'999), Finding::kName);
  EXPECT_EQ(at(10'000), Finding::kStopped);
  EXPECT_EQ(judge_silence(1'000'000, PeerState::kStopped, 0), Finding::kName) << "--hang_s 0";
}

TEST(Silence, OfARankThatLivesOnThisHostMeansNothing) {
  EXPECT_EQ(judge_silence(1'000'000, PeerState::kAlive, kStopMs), Finding::kNothing);
}

TEST(Silence, BesideAnAnswerOfTheHostIsAStopAndWithoutOneACut) {
  EXPECT_EQ(judge_silence(3'999, PeerState::kHostAnswers, kStopMs), Finding::kNothing);
  EXPECT_EQ(judge_silence(4'000, PeerState::kHostAnswers, kStopMs), Finding::kName);
  EXPECT_EQ(judge_silence(19'999, PeerState::kHostAnswers, kStopMs), Finding::kName);
  EXPECT_EQ(judge_silence(20'000, PeerState::kHostAnswers, kStopMs), Finding::kStopped);
  EXPECT_EQ(judge_silence(3'999, PeerState::kHostSilent, kStopMs), Finding::kNothing);
  EXPECT_EQ(judge_silence(4'000, PeerState::kHostSilent, kStopMs), Finding::kName);
  EXPECT_EQ(judge_silence(8'000, PeerState::kHostSilent, kStopMs), Finding::kCutOff);
  EXPECT_EQ(judge_silence(8'000, PeerState::kHostSilent, 0), Finding::kCutOff)
      << "--hang_s 0 is no promise of the network";
}

TEST(AwakeTime, ATickCountsForASecondAtMost) {
  ManualClock clock;
  AwakeTime awake(clock);
  EXPECT_FALSE(awake.due());
  clock.advance(999);
  EXPECT_FALSE(awake.due());
  clock.advance(1);
  EXPECT_TRUE(awake.due());
  EXPECT_EQ(awake.take_ms(), 1'000);
  clock.advance(3'600'000);  // the lid was closed
  EXPECT_TRUE(awake.due());
  EXPECT_EQ(awake.take_ms(), 1'000);
  EXPECT_FALSE(awake.due());
}

TEST(Stillness, GrowsUntilTheMainThreadMoves) {
  Stillness still;
  EXPECT_EQ(still.observe({.moves = 7}, 1'000).still_ms, 0) << "the first look";
  EXPECT_EQ(still.observe({.moves = 7}, 1'000).still_ms, 1'000);
  EXPECT_EQ(still.observe({.moves = 7, .text = "here"}, 900).still_ms, 1'900);
  EXPECT_EQ(still.observe({.moves = 8}, 1'000).still_ms, 0);
}

TEST(Beat, IsWhatWasSent) {
  const Beat sent{.pid_space = 1ULL << 63U,
                  .still_ms = 12'345,
                  .limit_ms = 10'000,
                  .waits_for_peers = true,
                  .text = "step 3, forward of unit 2"};
  const auto got = beat_of(encode(sent));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->pid_space, sent.pid_space);
  EXPECT_EQ(got->still_ms, 12'345);
  EXPECT_EQ(got->limit_ms, 10'000);
  EXPECT_TRUE(got->waits_for_peers);
  EXPECT_EQ(got->text, sent.text);
  EXPECT_FALSE(beat_of("short").has_value());
  EXPECT_FALSE(beat_of(std::string(5'000, 'x')).has_value());
}

Beat waits(int still_ms, const std::string& text = "all_reduce of 8 bytes") {
  return {.still_ms = still_ms, .limit_ms = 10'000, .waits_for_peers = true, .text = text};
}
Beat works(int still_ms, int limit_ms = 10'000) {
  return {.still_ms = still_ms, .limit_ms = limit_ms, .text = "step 5, B0.1"};
}
std::optional<int> hanging(const std::vector<Beat>& beats) {
  return hanging_rank(beats, std::vector<bool>(beats.size(), true));
}

TEST(Hang, IsOfTheRankThatDoesNotMoveWhileOthersWait) {
  EXPECT_EQ(hanging({waits(9'000), works(9'999)}), std::nullopt);
  EXPECT_EQ(hanging({waits(9'000), works(10'000)}), 1);
  EXPECT_EQ(hanging({works(10'000), waits(9'000), waits(2'000)}), 0);
  EXPECT_EQ(hanging({waits(5'000), works(11'000), works(12'000)}), 2) << "the first that stood";
}

TEST(Hang, IsNoneWhereSomebodyMovesOrNobodyWaitsOrThereIsNoLimitNow) {
  EXPECT_EQ(hanging({works(1'000), waits(9'000), works(10'000)}), std::nullopt);
  EXPECT_EQ(hanging({works(20'000), works(20'000)}), std::nullopt) << "a large product";
  EXPECT_EQ(hanging({waits(60'000), works(60'000, 0)}), std::nullopt) << "a long save";
  EXPECT_EQ(hanging({waits(60'000), waits(60'000)}), std::nullopt) << "--timeout_s ends these";
  EXPECT_EQ(hanging({waits(20'000), works(20'000, 50'000)}), std::nullopt) << "long steps";
  EXPECT_EQ(hanging_rank({waits(20'000), works(20'000)}, {true, false}), std::nullopt)
      << "in a debugger";
}

TEST(Hang, IsReportedWithRankPlaceAndWhoWaits) {
  const Roster roster{{0, "a", 10}, {1, "a", 11}, {2, "b", 12}};
  EXPECT_EQ(hang_message(roster, 2, {waits(9'000), waits(9'000), works(10'400)}),
            "fmengine: rank 2 (host b, pid 12) has not moved for 10.4 s: step 5, B0.1; ranks 0, 1 "
            "wait in all_reduce of 8 bytes; look at that process (`gdb -p`), or raise --hang_s; "
            "every rank stops, restart to resume from the last checkpoint (exit code 21)");
}

TEST(CutOff, NamesAllRanksBehindTheCut) {
  EXPECT_EQ(cut_off_message({{2, "b", 12}, {3, "b", 13}}, 8'000),
            "fmengine: rank 2 (host b, pid 12), rank 3 (host b, pid 13) are cut off: silent for "
            "8.0 s, and the host does not answer; look at that host and the network; every rank "
            "stops, restart to resume from the last checkpoint (exit code 20)");
}

// By the kernel: a child that stops itself.
TEST(ProcessState, IsTOfAStoppedProcess) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(process_state(child), 'T');
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(process_state(child), '?');
  EXPECT_EQ(process_state(getpid()), 'R');
  EXPECT_NE(pid_space_here(), 0U);
  EXPECT_EQ(pid_space_here(), pid_space_here());
}

}  // namespace
}  // namespace fm::comm
