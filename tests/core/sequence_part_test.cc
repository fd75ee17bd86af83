#include "core/sequence_part.h"

#include <gtest/gtest.h>

#include <vector>

namespace fm::core {
namespace {

std::vector<std::int64_t> tokens_of(const TokenRuns& runs) {
  std::vector<std::int64_t> tokens;
  for (const TokenRun& run : runs) {
    for (std::int64_t t = run.first; t < run.end(); ++t) tokens.push_back(t);
  }
  return tokens;
}

using Tokens = std::vector<std::int64_t>;

TEST(SequencePart, UlyssesRanksHaveOneRunEachInRankOrder) {
  const SequenceSplit split{.ulysses = 3};
  EXPECT_EQ(tokens_of(runs_of_rank(6, split, 0)), (Tokens{0, 1}));
  EXPECT_EQ(tokens_of(runs_of_rank(6, split, 1)), (Tokens{2, 3}));
  EXPECT_EQ(tokens_of(runs_of_rank(6, split, 2)), (Tokens{4, 5}));
}

TEST(SequencePart, RingRanksHaveAChunkFromEitherEnd) {
  const SequenceSplit split{.ring = 3};
  EXPECT_EQ(tokens_of(runs_of_rank(12, split, 0)), (Tokens{0, 1, 10, 11}));
  EXPECT_EQ(tokens_of(runs_of_rank(12, split, 1)), (Tokens{2, 3, 8, 9}));
  EXPECT_EQ(tokens_of(runs_of_rank(12, split, 2)), (Tokens{4, 5, 6, 7}));
}

TEST(SequencePart, UlyssesRanksOfARingsGroupCutItsTokensInOrder) {
  const SequenceSplit even{.ulysses = 2, .ring = 2};
  EXPECT_EQ(tokens_of(runs_of_rank(8, even, 0)), (Tokens{0, 1}));
  EXPECT_EQ(tokens_of(runs_of_rank(8, even, 1)), (Tokens{6, 7}));
  EXPECT_EQ(tokens_of(runs_of_rank(8, even, 2)), (Tokens{2, 3}));
  EXPECT_EQ(tokens_of(runs_of_rank(8, even, 3)), (Tokens{4, 5}));
  const SequenceSplit odd{.ulysses = 3, .ring = 2};  // the middle one has the end of both chunks
  EXPECT_EQ(tokens_of(runs_of_rank(12, odd, 0)), (Tokens{0, 1}));
  EXPECT_EQ(tokens_of(runs_of_rank(12, odd, 1)), (Tokens{2, 9}));
  EXPECT_EQ(tokens_of(runs_of_rank(12, odd, 2)), (Tokens{10, 11}));
}

TEST(SequencePart, CausalWorkIsEvenAroundTheRing) {
  for (const int ring : {2, 3, 4, 8}) {
    for (int rank = 0; rank < ring; ++rank) {
      std::int64_t keys = 0;
      for (const std::int64_t t : tokens_of(runs_of_rank(48, {.ring = ring}, rank))) keys += t + 1;
      EXPECT_EQ(keys * ring, 48 * 49 / 2) << ring << " " << rank;
    }
  }
}

}  // namespace
}  // namespace fm::core
