#include "pipeline/split_units.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "pipeline/passes.h"

namespace fm::pipeline {
namespace {

// "0-3 3-5": ranges of all pipe ranks.
std::string ranges_of(const UnitRow& row) {
  std::string out;
  for (const UnitRange& range : row.ranges) {
    out += std::to_string(range.first) + "-" + std::to_string(range.last) + " ";
  }
  return out;
}

TEST(SplitUnits, OnePipeRankHasEverything) {
  EXPECT_EQ(ranges_of(split_units(4, 1, false)), "0-6 ");
}

TEST(SplitUnits, EmbeddingFirstHeadLastBlocksEvenly) {
  EXPECT_EQ(ranges_of(split_units(4, 2, false)), "0-3 3-6 ");
  EXPECT_EQ(ranges_of(split_units(4, 4, false)), "0-2 2-3 3-4 4-6 ");
}

TEST(SplitUnits, EarlierPipeRanksTakeTheRemainder) {
  EXPECT_EQ(ranges_of(split_units(5, 2, false)), "0-4 4-7 ");          // 3 + 2 blocks
  EXPECT_EQ(ranges_of(split_units(6, 4, false)), "0-3 3-5 5-6 6-8 ");  // 2 + 2 + 1 + 1
}

TEST(SplitUnits, FewerBlocksThanPipeRanksIsRefusedWithBothNumbers) {
  try {
    split_units(3, 4, false);
    FAIL();
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    EXPECT_NE(std::string(error.what()).find("pipe_parallel_size=4, num_hidden_layers=3"),
              std::string::npos);
  }
}

TEST(SplitUnits, TheHeadHasNoForwardAndIsNoBlock) {
  const UnitRow row = split_units(4, 2, true);
  EXPECT_EQ(row.head(), 5);
  EXPECT_EQ(row.body(0).last, 3);
  EXPECT_EQ(row.body(1).last, 5);
  EXPECT_FALSE(row.is_block(0));
  EXPECT_TRUE(row.is_block(1));
  EXPECT_TRUE(row.is_block(4));
  EXPECT_FALSE(row.is_block(5));
}

TEST(SplitUnits, OnlyTheEndsOfATiedRowHoldTheTiedMatrix) {
  const UnitRow row = split_units(3, 3, true);
  EXPECT_TRUE(row.has_tied_end(0));
  EXPECT_FALSE(row.has_tied_end(1));
  EXPECT_TRUE(row.has_tied_end(2));
  EXPECT_FALSE(split_units(3, 3, false).has_tied_end(0));
}

TEST(ExpandUnits, ForwardsAscendAndBackwardsDescend) {
  const UnitRow row = split_units(3, 2, false);  // 0-3, 3-5
  EXPECT_EQ(print(expand_units(parse("L0 F0.0 B0.0 O"), row, 0)),
            "L0 F0.0 F0.1 F0.2 B0.2 B0.1 B0.0 O ");
  EXPECT_EQ(print(expand_units(parse("L0 F0.0 X0 B0.0 O"), row, 1)), "L0 F0.3 X0 B0.3 O ");
}

TEST(ExpandUnits, BothHalvesOfASplitBackwardDescend) {
  const UnitRow row = split_units(3, 2, false);
  EXPECT_EQ(print(expand_units(parse("I1.0 W1.0"), row, 0)), "I1.2 I1.1 I1.0 W1.2 W1.1 W1.0 ");
}

}  // namespace
}  // namespace fm::pipeline
