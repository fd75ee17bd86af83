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
  // The disk is at work from 1 to 5; the rank waits for its second read until 3 and ends at 3.5.
  // The next step begins there, computes until 4.5, and its reads begin at 5.
  EXPECT_DOUBLE_EQ(time.step, 4.0);
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
