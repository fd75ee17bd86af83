// The first collective that two ranks posted differently.
#include "observe/blackbox/divergence.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/observe/blackbox/written_rings.h"

namespace fm::blackbox {
namespace {

using core::BoxVerb;

BoxView view_of_rank(const WrittenRank& rank, int number) {
  return {.owner = "rank " + std::to_string(number),
          .names = rank.box.names(),
          .records = rank.box.last_of(rank.dp, 64)};
}

// Ranks 0 and 2 reduce layers.1 where rank 1 reduces layers.0, of the same size.
TEST(Divergence, IsTheFirstCollectiveThatDiffers) {
  WrittenRank ranks[3] = {WrittenRank(0, 3), WrittenRank(1, 3), WrittenRank(2, 3)};
  for (int rank = 0; rank < 3; ++rank) {
    ranks[rank].finish(BoxVerb::kAllGather, 8);
    ranks[rank].box.begin_instruction(2, -1, rank == 1 ? 1 : 2);
    ranks[rank].finish(BoxVerb::kReduceScatter, 64);
    ranks[rank].finish(rank == 1 ? BoxVerb::kAllReduce : BoxVerb::kAllGather, 64);
  }
  std::vector<BoxView> views;
  for (int rank = 0; rank < 3; ++rank) views.push_back(view_of_rank(ranks[rank], rank));
  const auto found = first_divergence(views);
  ASSERT_TRUE(found);
  EXPECT_EQ(text_of(*found),
            "operation 2 of group dp[0-2] is step 57, reduce R.2 (layers.1), reduce_scatter #2 of "
            "group dp[0-2], 64 x fp32 at rank 0, and step 57, reduce R.1 (layers.0), "
            "reduce_scatter #2 of group dp[0-2], 64 x fp32 at rank 1");
}

TEST(Divergence, IsNoneWhereARankIsBehindOrItsRecordsAreOlder) {
  WrittenRank ahead(0, 2);
  WrittenRank behind(1, 2);
  for (int at = 1; at <= 5; ++at) ahead.finish(BoxVerb::kAllReduce, at);
  for (int at = 1; at <= 2; ++at) behind.finish(BoxVerb::kAllReduce, at);
  BoxView short_view = view_of_rank(ahead, 0);
  short_view.records.erase(short_view.records.begin());
  const std::vector<BoxView> views = {short_view, view_of_rank(behind, 1)};
  EXPECT_FALSE(first_divergence(views));
}

TEST(Divergence, LooksAtViewsThatHaveTravelled) {
  WrittenRank rank(0, 2);
  rank.finish(BoxVerb::kBroadcast, 3, 1);
  const BoxView view = view_of_rank(rank, 0);
  const BoxView again = view_of(text_of(view));
  EXPECT_EQ(again.owner, view.owner);
  EXPECT_EQ(text_of(again.names), text_of(view.names));
  ASSERT_EQ(again.records.size(), 1U);
  EXPECT_EQ(text_of(again.records[0], again.names), text_of(view.records[0], view.names));
  const std::string text = text_of(view);
  EXPECT_THROW(view_of(text.substr(0, text.size() - 1)), core::UserError);
}

}  // namespace
}  // namespace fm::blackbox
