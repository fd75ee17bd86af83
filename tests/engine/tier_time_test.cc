#include "engine/plan/tier_time.h"

#include <gtest/gtest.h>

namespace fm::engine {
namespace {

using core::Bytes;
using pipeline::Op;
using Program = std::vector<TimedInstruction>;

constexpr DriveRate kRate{100.0, 50.0};  // bytes per second

// A second of computing, then reads of 100 bytes, updates of half a second and writes of 50 bytes.
TEST(TierTime, ReadsAndWritesRunBesideUpdates) {
  const Program program = {{Op::kForward, 0, 1.0},
                           {Op::kFetch, 0, 0.0, Bytes(100)},
                           {Op::kFetch, 1, 0.0, Bytes(100)},
                           {Op::kUpdate, 0, 0.5},
                           {Op::kStore, 0, 0.0, {}, Bytes(50)},
                           {Op::kUpdate, 1, 0.5},
                           {Op::kStore, 1, 0.0, {}, Bytes(50)}};
  const TierTime time = time_of(program, kRate);
  EXPECT_DOUBLE_EQ(time.computing, 2.0);
  EXPECT_DOUBLE_EQ(time.moving, 4.0);
  // Each direction has a third of 100 bytes per second beside the other. The first read is there
  // at 2, the second one has half of its bytes when the first write begins, at 2.5; both end at 4.
  // The second update ends at 4.5, and so do all later steps, because the last write is short.
  EXPECT_DOUBLE_EQ(time.step, 4.5);
}

// As on a drive that reads and writes at full speed at once.
TEST(TierTime, WhatBothDirectionsReachTogetherIsGiven) {
  const Program program = {{Op::kFetch, 0, 0.0, Bytes(200)}, {Op::kStore, 1, 0.0, {}, Bytes(100)}};
  EXPECT_DOUBLE_EQ(time_of(program, {100.0, 50.0, 200.0}).moving, 2.0);
  EXPECT_DOUBLE_EQ(time_of(program, {100.0, 50.0, 100.0}).moving, 2.0 + 1.0);
  EXPECT_DOUBLE_EQ(time_of(program, {100.0, 50.0}).moving, 4.0);
}

// The unit's place is free when what the last step stored there has left, array by array.
TEST(TierTime, AReadWaitsForThePlaceItTakes) {
  Program program = {{Op::kFetch, 0, 0.0, Bytes(100)},
                     {Op::kUpdate, 0, 0.0},
                     {Op::kStore, 0, 0.0, {}, Bytes(100)}};
  const DriveRate apart{100.0, 100.0, 200.0};
  EXPECT_DOUBLE_EQ(time_of(program, apart).step, 1.0);
  program.front().behind = 0;
  EXPECT_DOUBLE_EQ(time_of(program, apart).step, 2.0);
  program.front().arrays = program.back().arrays = 2;
  EXPECT_DOUBLE_EQ(time_of(program, apart).step, 1.5);
}

TEST(TierTime, AStepThatComputesLongWaitsForNothing) {
  const Program program = {{Op::kGather, 1, 0.0, Bytes(100)},
                           {Op::kForward, 0, 10.0},
                           {Op::kForward, 1, 10.0},
                           {Op::kStore, 1, 0.0, {}, Bytes(50)}};
  EXPECT_DOUBLE_EQ(time_of(program, kRate).step, 20.0);
}

TEST(TierTime, AUnitWaitsForItsParameters) {
  const Program program = {{Op::kGather, 0, 0.0, Bytes(100)}, {Op::kForward, 0, 1.0}};
  EXPECT_DOUBLE_EQ(time_of(program, kRate).step, 2.0);
}

TEST(TierTime, WithoutMovesItIsTheSum) {
  const Program program = {{Op::kForward, 0, 1.0}, {Op::kUpdate, 0, 0.25}};
  const TierTime time = time_of(program, kRate);
  EXPECT_DOUBLE_EQ(time.step, 1.25);
  EXPECT_DOUBLE_EQ(time.moving, 0.0);
}

}  // namespace
}  // namespace fm::engine
