#include "pipeline/placement.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

// "0-3 3-5": chunks in the order of units.
std::string ranges_of(const Placement& units) {
  std::string out;
  for (const Chunk& chunk : units.chunks()) {
    out += std::to_string(chunk.units.first) + "-" + std::to_string(chunk.units.last) + " ";
  }
  return out;
}

// "0 1 1 0": pipe ranks of all chunks.
std::string owners_of(const Placement& units) {
  std::string out;
  for (const Chunk& chunk : units.chunks()) out += std::to_string(chunk.pipe_rank) + " ";
  return out;
}

TEST(Placement, OnePipeRankHasEverything) { EXPECT_EQ(ranges_of(split(4, 1)), "0-6 "); }

TEST(Placement, EmbeddingFirstHeadLastBlocksEvenly) {
  EXPECT_EQ(ranges_of(split(4, 2)), "0-3 3-6 ");
  EXPECT_EQ(ranges_of(split(4, 4)), "0-2 2-3 3-4 4-6 ");
}

TEST(Placement, EarlierPipeRanksTakeTheRemainder) {
  EXPECT_EQ(ranges_of(split(5, 2)), "0-4 4-7 ");          // 3 + 2 blocks
  EXPECT_EQ(ranges_of(split(6, 4)), "0-3 3-5 5-6 6-8 ");  // 2 + 2 + 1 + 1
}

TEST(Placement, FewerBlocksThanPipeRanksIsRefusedWithBothNumbers) {
  try {
    split(3, 4);
    FAIL();
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    EXPECT_NE(std::string(error.what()).find("pipe_parallel_size=4, num_hidden_layers=3"),
              std::string::npos);
  }
}

TEST(Placement, TheHeadHasNoForwardAndIsNoBlock) {
  const Placement units = split(4, 2, true);
  EXPECT_EQ(units.head(), 5);
  EXPECT_EQ(units.body(0, 0).last, 3);
  EXPECT_EQ(units.body(1, 0).last, 5);
  EXPECT_FALSE(units.is_block(0));
  EXPECT_TRUE(units.is_block(1));
  EXPECT_TRUE(units.is_block(4));
  EXPECT_FALSE(units.is_block(5));
}

TEST(Placement, OnlyTheEndsOfATiedRowHoldTheTiedMatrix) {
  const Placement units = split(3, 3, true);
  EXPECT_TRUE(units.has_tied_end(0));
  EXPECT_FALSE(units.has_tied_end(1));
  EXPECT_TRUE(units.has_tied_end(2));
  EXPECT_FALSE(split(3, 3).has_tied_end(0));
}

TEST(Placement, ChunksGoAroundThePipeRanksInALoopOrInAV) {
  const Placement loop = split_evenly(8, {.pipe_ranks = 2, .chunks = 2}, false);
  EXPECT_EQ(ranges_of(loop), "0-3 3-5 5-7 7-10 ");
  EXPECT_EQ(owners_of(loop), "0 1 0 1 ");
  const PipeShape v{.pipe_ranks = 3, .chunks = 2, .order = ChunkOrder::kV};
  EXPECT_EQ(owners_of(split_evenly(6, v, false)), "0 1 2 2 1 0 ");
  for (int rank = 0; rank < 3; ++rank) {
    for (int local = 0; local < 2; ++local) {
      EXPECT_EQ(v.owner_of_chunk(v.chunk_of(rank, local)), rank);
    }
  }
}

TEST(Placement, AUnitHasItsPlaceAmongThoseOfItsOwner) {
  const Placement units =
      split_evenly(4, {.pipe_ranks = 2, .chunks = 2}, true);  // 0 1 | 2 | 3 | 4 5
  EXPECT_EQ(units.units_of(0), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(units.units_of(1), (std::vector<int>{2, 4, 5}));
  EXPECT_EQ(units.index_on_rank(3), 2);
  EXPECT_EQ(units.index_on_rank(4), 1);
  EXPECT_EQ(units.body(0, 1).first, 3);
  EXPECT_EQ(units.body(1, 1).last, 5);  // without the head
  EXPECT_THROW(static_cast<void>(units.body(1, 2)), core::BugError);
}

TEST(Placement, InAVTheFirstPipeRankHoldsBothEnds) {
  const PipeShape v{.pipe_ranks = 2, .chunks = 2, .order = ChunkOrder::kV};
  const Placement units = split_evenly(4, v, true);
  EXPECT_TRUE(units.both_ends_on_one_rank());
  EXPECT_TRUE(units.has_tied_end(0));
  EXPECT_FALSE(units.has_tied_end(1));
}

TEST(Placement, NeighboursOnOneRankHandOverWithoutAMessage) {
  const PipeShape v{.pipe_ranks = 2, .chunks = 2, .order = ChunkOrder::kV};
  const Placement units = split_evenly(4, v, false);  // 0 1 | 2, 3 | 4 5 on ranks 0 1 1 0
  EXPECT_TRUE(units.crosses({false, 0, 2}));
  EXPECT_FALSE(units.crosses({false, 0, 3}));
  EXPECT_FALSE(units.crosses({true, 0, 2}));
  EXPECT_TRUE(units.crosses({true, 0, 3}));
}

TEST(ExpandUnits, EveryChunkBecomesItsUnits) {
  const Placement units = split_evenly(8, {.pipe_ranks = 2, .chunks = 2}, false);
  EXPECT_EQ(print(expand_units(parse("F0.0 F0.1 X0 B0.1 B0.0"), units, 1)),
            "F0.3 F0.4 F0.7 F0.8 X0 B0.8 B0.7 B0.4 B0.3 ");
}

TEST(ExpandUnits, ForwardsAscendAndBackwardsDescend) {
  const Placement units = split(3, 2);  // 0-3, 3-5
  EXPECT_EQ(print(expand_units(parse("L0 F0.0 B0.0 O"), units, 0)),
            "L0 F0.0 F0.1 F0.2 B0.2 B0.1 B0.0 O ");
  EXPECT_EQ(print(expand_units(parse("L0 F0.0 X0 B0.0 O"), units, 1)), "L0 F0.3 X0 B0.3 O ");
}

TEST(ExpandUnits, BothHalvesOfASplitBackwardDescend) {
  const Placement units = split(3, 2);
  EXPECT_EQ(print(expand_units(parse("I1.0 W1.0"), units, 0)), "I1.2 I1.1 I1.0 W1.2 W1.1 W1.0 ");
}

TEST(ExpandUnits, UnitMajorRunsEveryMicroThroughAUnitBeforeTheNext) {
  const Placement units = split_evenly(2, {}, false);
  const auto expanded = [&](const char* scheduled) {
    return print(expand_units(parse(scheduled), units, 0, UnitOrder::kUnitMajor));
  };
  EXPECT_EQ(expanded("L0 F0.0 L1 F1.0 X0 B0.0 X1 B1.0 O"),
            "L0 L1 F0.0 F1.0 F0.1 F1.1 F0.2 F1.2 X0 X1 B0.2 B1.2 B0.1 B1.1 B0.0 B1.0 O ");
  EXPECT_EQ(expanded("L0 F0.0 X0 L1 F1.0 X1 O"), "L0 L1 F0.0 F1.0 F0.1 F1.1 F0.2 F1.2 X0 X1 O ");
}

// Blocks 1 2 | 3 are recomputed together: what they keep is given back before the next micro-batch.
TEST(ExpandUnits, UnitMajorTakesASegmentAsOneBackwards) {
  Placement units = split_evenly(3, {}, false);
  units.segment_blocks = 2;
  const char* const gpipe = "L0 F0.0 L1 F1.0 X0 B0.0 X1 B1.0 O";
  const Program expanded = expand_units(parse(gpipe), units, 0, UnitOrder::kUnitMajor);
  EXPECT_EQ(print(insert_recompute(expanded, units)),
            "L0 L1 F0.0 F1.0 F0.1 F1.1 F0.2 F1.2 F0.3 F1.3 X0 X1 C0.3 B0.3 C1.3 B1.3 C0.1 C0.2 "
            "B0.2 B0.1 C1.1 C1.2 B1.2 B1.1 B0.0 B1.0 O ");
}

}  // namespace
}  // namespace fm::pipeline
