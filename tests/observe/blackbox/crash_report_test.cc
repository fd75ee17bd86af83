// Who waits for whom, and because of whom.
#include "observe/blackbox/crash_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/observe/blackbox/written_rings.h"

namespace fm::blackbox {
namespace {

using core::BoxVerb;
using Lives = std::vector<ProcessLife>;

class Crash : public ::testing::Test {
 protected:
  Crash() {
    for (int rank = 0; rank < 4; ++rank) {
      ranks_.push_back(std::make_unique<WrittenRank>(rank));
      EXPECT_EQ(ranks_.back()->keep(folder_, rank), "");
      ranks_.back()->box.begin_instruction(1, 2, 2);
      ranks_.back()->finish(BoxVerb::kAllGather, 8);
    }
  }
  CrashReport report(const Lives& lives = Lives(4, ProcessLife::kLives)) const {
    return crash_report(read_rings(folder_.path(), false), lives);
  }
  static void expect_part(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
  }

  testing::ScratchFolder folder_;
  std::vector<std::unique_ptr<WrittenRank>> ranks_;
};

TEST_F(Crash, NamesTheRankThatNeverEnteredWhatTheOthersWaitIn) {
  for (const int rank : {0, 1, 3}) {
    ranks_[static_cast<std::size_t>(rank)]->enter(BoxVerb::kReduceScatter, 64);
  }
  const CrashReport found = report();
  ASSERT_EQ(found.causes.size(), 1U);
  EXPECT_TRUE(found.causes[0].starts_with("rank 2 (host ")) << found.causes[0];
  expect_part(found.causes[0],
              " runs; it was in step 57, backward B2.2 (layers.1); ranks 0,1,3 wait for it in "
              "reduce_scatter #2 of group dp[0-3], 64 x fp32");
  const std::string text = report_text(found, 2);
  expect_part(text, "run 7f3a of 4 ranks, begun ");
  expect_part(text, "  waits for rank 2\n");
  expect_part(text, "  finished  step 57, backward B2.2 (layers.1), all_gather #1 of group dp");
  expect_part(text, " entered               -  step 57, backward B2.2 (layers.1), reduce_scatter");
  const auto parsed = nlohmann::json::parse(report_json(found, 1));
  EXPECT_EQ(parsed["causes"].size(), 1U);
  EXPECT_EQ(parsed["black_boxes"][0]["waits_for"], nlohmann::json({2}));
  EXPECT_EQ(parsed["black_boxes"][0]["inside"]["verb"], "reduce_scatter");
  EXPECT_EQ(parsed["black_boxes"][0]["records"].size(), 1U);
}

// Whoever follows another rank ends with 20; whoever was killed says nothing.
TEST_F(Crash, NamesTheRankThatIsGoneWithoutAnEnd) {
  ranks_[0]->enter(BoxVerb::kReduceScatter, 64);
  for (const int rank : {0, 2, 3}) ranks_[static_cast<std::size_t>(rank)]->box.end(20);
  const CrashReport found = report(Lives(4, ProcessLife::kGone));
  ASSERT_EQ(found.causes.size(), 1U);
  EXPECT_TRUE(found.causes[0].starts_with("rank 1 (host ")) << found.causes[0];
  expect_part(found.causes[0], " is gone without an end");
}

TEST_F(Crash, NamesTheRankThatEndedForAReasonOfItsOwn) {
  for (const int rank : {0, 1, 2}) ranks_[static_cast<std::size_t>(rank)]->box.end(20);
  ranks_[3]->box.end(26);
  const CrashReport found = report(Lives(4, ProcessLife::kGone));
  ASSERT_EQ(found.causes.size(), 1U);
  expect_part(found.causes[0], "ended with exit code 26");
  EXPECT_TRUE(found.causes[0].starts_with("rank 3 "));
}

TEST_F(Crash, FollowsMessagesToTheRankThatDoesNotSend) {
  ranks_[0]->enter(BoxVerb::kReceive, 8, 1);  // of rank 1, which waits for rank 2
  ranks_[1]->enter(BoxVerb::kReceive, 8, 2);
  const CrashReport found = report();
  ASSERT_EQ(found.causes.size(), 1U);
  EXPECT_TRUE(found.causes[0].starts_with("rank 2 ")) << found.causes[0];
  expect_part(found.causes[0], "rank 1 waits for it in receive #1 from rank 2 of group dp[0-3]");
}

TEST_F(Crash, TellsRanksThatWaitForEachOther) {
  ranks_[0]->enter(BoxVerb::kReceive, 8, 1);
  ranks_[1]->enter(BoxVerb::kReceive, 8, 0);
  const CrashReport found = report();
  ASSERT_EQ(found.causes.size(), 2U);
  expect_part(found.causes[0], "for 1, which waits, too: the ranks wait for each other");
}

TEST_F(Crash, TellsThatAllHaveComeWhereDataDoesNotArrive) {
  for (const auto& rank : ranks_) rank->enter(BoxVerb::kAllReduce, 8);
  const CrashReport found = report();
  ASSERT_EQ(found.causes.size(), 4U);
  expect_part(found.causes[0], "to which all have come: data does not arrive");
}

TEST_F(Crash, TellsTheFirstCollectiveThatDiffers) {
  ranks_[0]->finish(BoxVerb::kAllReduce, 8);
  ranks_[1]->finish(BoxVerb::kAllReduce, 9);
  const CrashReport found = report();
  ASSERT_FALSE(found.causes.empty());
  expect_part(found.causes[0], "operation 2 of group dp[0-3] is ");
  expect_part(report_json(found, 0), "\"divergence\"");
}

TEST_F(Crash, FindsNothingWhereNobodyWaits) {
  for (const auto& rank : ranks_) rank->box.end(0);
  const CrashReport found = report(Lives(4, ProcessLife::kGone));
  EXPECT_TRUE(found.causes.empty());
  expect_part(report_text(found, 0), "cause: none; no rank waits for another");
}

TEST_F(Crash, NamesARankWithoutABlackBox) {
  std::filesystem::remove(folder_.path() / "blackbox" / "rank00002.ring");
  ranks_[0]->enter(BoxVerb::kAllReduce, 8);
  ranks_[1]->enter(BoxVerb::kAllReduce, 8);
  ranks_[3]->enter(BoxVerb::kAllReduce, 8);
  const CrashReport found = report(Lives(3, ProcessLife::kLives));
  EXPECT_EQ(found.absent, std::vector<int>{2});
  ASSERT_EQ(found.causes.size(), 1U);
  expect_part(found.causes[0], "rank 2 has left no black box here; ranks 0,1,3 wait for it");
}

}  // namespace
}  // namespace fm::blackbox
