// Programs before and after the pass, written by hand from the design: weights gathered before
// and released after each use, a gradient reduced when complete, the boundary before the report.
#include "zero/insert_zero.h"

#include <gtest/gtest.h>

namespace fm::zero {
namespace {

using core::SumOrder;
using pipeline::parse;
using pipeline::Placement;
using pipeline::split_evenly;

std::string with_zero(const std::string& program, int zero_stage, const Placement& units,
                      int pipe_rank = 0, SumOrder order = SumOrder::kFast) {
  return print(insert_zero(parse(program), core::plan_of(zero_stage, order), units, pipe_rank));
}

// Embedding 0, block 1, head 2; two micros.
const Placement kAlone = split_evenly(1, {.pipe_ranks = 1}, false);
constexpr const char* kTwoMicros = "L0 F0.0 F0.1 X0 B0.1 B0.0 L1 F1.0 F1.1 X1 B1.1 B1.0 O";

constexpr const char* kEveryMicro =
    "K L0 F0.0 F0.1 X0 R0.2 B0.1 R0.1 B0.0 R0.0 L1 F1.0 F1.1 X1 R1.2 B1.1 R1.1 B1.0 R1.0 N ";

TEST(InsertZero, Stage0ReducesEachUnitOnceAfterItsLastGradient) {
  EXPECT_EQ(with_zero(kTwoMicros, 0, kAlone),
            "K L0 F0.0 F0.1 X0 B0.1 B0.0 L1 F1.0 F1.1 X1 R.2 B1.1 R.1 B1.0 R.0 "
            "N u.0 u.1 u.2 O ");
}

TEST(InsertZero, Stage1PublishesWhatItsOwnersUpdated) {
  EXPECT_EQ(with_zero(kTwoMicros, 1, kAlone),
            "K L0 F0.0 F0.1 X0 B0.1 B0.0 L1 F1.0 F1.1 X1 R.2 B1.1 R.1 B1.0 R.0 "
            "N u.0 p.0 u.1 p.1 u.2 p.2 O ");
}

TEST(InsertZero, Stage2ReducesEveryMicro) {
  EXPECT_EQ(with_zero(kTwoMicros, 2, kAlone),
            std::string(kEveryMicro) + "u.0 p.0 u.1 p.1 u.2 p.2 O ");
}

TEST(InsertZero, Stage3GathersAroundEveryUseAndPublishesNothing) {
  EXPECT_EQ(with_zero(kTwoMicros, 3, kAlone),
            "K L0 g.0 F0.0 r.0 g.1 F0.1 r.1 g.2 X0 r.2 R0.2 g.1 B0.1 r.1 R0.1 B0.0 R0.0 "
            "L1 g.0 F1.0 r.0 g.1 F1.1 r.1 g.2 X1 r.2 R1.2 g.1 B1.1 r.1 R1.1 B1.0 R1.0 "
            "N u.0 u.1 u.2 O ");
}

TEST(InsertZero, CanonicalOrderReducesEveryMicroUnderStage0And1) {
  EXPECT_EQ(with_zero(kTwoMicros, 0, kAlone, 0, SumOrder::kCanonical),
            std::string(kEveryMicro) + "u.0 u.1 u.2 O ");
  EXPECT_EQ(with_zero(kTwoMicros, 1, kAlone, 0, SumOrder::kCanonical),
            std::string(kEveryMicro) + "u.0 p.0 u.1 p.1 u.2 p.2 O ");
}

TEST(InsertZero, CanonicalOrderChangesNothingUnderStage2And3) {
  for (const int zero_stage : {2, 3}) {
    EXPECT_EQ(with_zero(kTwoMicros, zero_stage, kAlone, 0, SumOrder::kCanonical),
              with_zero(kTwoMicros, zero_stage, kAlone));
  }
}

TEST(InsertZero, ATiedMatrixIsAddedUpBeforeTheNorm) {
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 B0.1 B0.0 O", 0, split_evenly(1, {.pipe_ranks = 1}, true)),
            "K L0 F0.0 F0.1 X0 R.2 B0.1 R.1 B0.0 R.0 Rt N u.0 u.1 u.2 O ");
}

TEST(InsertZero, OnlyTheEndsOfAPipeTakePartInATiedSumAndOnlyTheLastCounts) {
  const Placement units = split_evenly(3, {.pipe_ranks = 3}, true);  // 0 1 | 2 | 3, head 4
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 sa0.2 rg0.1 B0.1 B0.0 O", 1, units, 0),
            "L0 F0.0 F0.1 sa0.2 rg0.1 B0.1 R.1 B0.0 R.0 Rt N u.0 p.0 u.1 p.1 O ");
  EXPECT_EQ(with_zero("ra0.2 F0.2 sa0.3 rg0.2 B0.2 sg0.1 O", 1, units, 1),
            "ra0.2 F0.2 sa0.3 rg0.2 B0.2 R.2 sg0.1 N u.2 p.2 O ");
  EXPECT_EQ(with_zero("L0 ra0.3 F0.3 X0 B0.3 sg0.2 O", 1, units, 2),
            "K L0 ra0.3 F0.3 X0 R.4 B0.3 R.3 sg0.2 Rt N u.3 p.3 u.4 p.4 O ");
}

TEST(InsertZero, Stage3OverTwoPipeRanks) {
  const Placement units = split_evenly(2, {.pipe_ranks = 2}, false);  // 0 1 | 2, head 3
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 sa0.2 rg0.1 B0.1 B0.0 O", 3, units, 0),
            "L0 g.0 F0.0 r.0 g.1 F0.1 r.1 sa0.2 rg0.1 g.1 B0.1 r.1 R0.1 B0.0 R0.0 N u.0 u.1 O ");
  EXPECT_EQ(with_zero("L0 ra0.2 F0.2 X0 B0.2 sg0.1 O", 3, units, 1),
            "K L0 ra0.2 g.2 F0.2 r.2 g.3 X0 r.3 R0.3 g.2 B0.2 r.2 R0.2 sg0.1 N u.2 u.3 O ");
}

TEST(InsertZero, RecomputationAndBackwardShareOneGather) {
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 C0.1 B0.1 B0.0 O", 3, kAlone),
            "K L0 g.0 F0.0 r.0 g.1 F0.1 r.1 g.2 X0 r.2 R0.2 g.1 C0.1 B0.1 r.1 R0.1 B0.0 R0.0 "
            "N u.0 u.1 u.2 O ");
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 C0.1 B0.1 B0.0 O", 0, kAlone),
            "K L0 F0.0 F0.1 X0 R.2 C0.1 B0.1 R.1 B0.0 R.0 N u.0 u.1 u.2 O ");
}

TEST(InsertZero, NeighbouringUsesOfAUnitShareOneGather) {
  const Placement units = split_evenly(3, {.pipe_ranks = 3}, false).evaluating();
  EXPECT_EQ(with_zero("ra0.2 ra1.2 F0.2 F1.2 sa0.3 O", 3, units, 1),
            "ra0.2 ra1.2 g.2 F0.2 F1.2 r.2 sa0.3 O ");
}

TEST(InsertZero, ASplitBackwardIsReducedAfterItsWeightHalf) {
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 I0.1 I0.0 W0.1 W0.0 O", 2, kAlone),
            "K L0 F0.0 F0.1 X0 R0.2 I0.1 I0.0 W0.1 R0.1 W0.0 R0.0 "
            "N u.0 p.0 u.1 p.1 u.2 p.2 O ");
}

TEST(InsertZero, EvaluationOnlyGathers) {
  const Placement evaluating = kAlone.evaluating();
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 O", 3, evaluating),
            "L0 g.0 F0.0 r.0 g.1 F0.1 r.1 g.2 X0 r.2 O ");
  for (const int zero_stage : {0, 1, 2}) {
    EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 O", zero_stage, evaluating), "L0 F0.0 F0.1 X0 O ");
  }
}

TEST(InsertZero, UnitsWithoutBackwardAreGatheredForForwardAloneAndNeverUpdated) {
  Placement units = kAlone;
  units.first_backward = 2;
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 X0 O", 3, units),
            "K L0 g.0 F0.0 r.0 g.1 F0.1 r.1 g.2 X0 r.2 R0.2 N u.2 O ");
  Placement pipe = split_evenly(2, {.pipe_ranks = 2}, false);  // 0 1 | 2, head 3
  pipe.first_backward = 2;
  EXPECT_EQ(with_zero("L0 F0.0 F0.1 sa0.2 O", 1, pipe, 0), "L0 F0.0 F0.1 sa0.2 N O ");
  EXPECT_EQ(with_zero("L0 ra0.2 F0.2 X0 B0.2 O", 1, pipe, 1),
            "K L0 ra0.2 F0.2 X0 R.3 B0.2 R.2 N u.2 p.2 u.3 p.3 O ");
}

std::string by_phase(const std::string& program, const Placement& units, int pipe_rank = 0) {
  core::ShardPlan plan = core::plan_of(3, SumOrder::kFast, core::ParamSharing::kPrivate,
                                       core::Reductions::kOncePerStep);
  plan.regather = core::Regather::kPhase;
  return print(insert_zero(parse(program), plan, units, pipe_rank));
}

// One chunk is one phase: a gather of each unit per step, whatever the number of micro-batches.
TEST(InsertZero, APhaseGathersEachUnitOnce) {
  EXPECT_EQ(by_phase(kTwoMicros, kAlone),
            "K L0 g.0 F0.0 g.1 F0.1 g.2 X0 B0.1 B0.0 L1 F1.0 r.0 F1.1 X1 r.2 R.2 B1.1 r.1 R.1 B1.0 "
            "R.0 N u.0 u.1 u.2 O ");
}

// A gather of each unit forward and one backward, where the schedule is unit-major.
TEST(InsertZero, AUnitIsGatheredOncePerDirection) {
  core::ShardPlan plan = core::plan_of(3, SumOrder::kFast);
  plan.regather = core::Regather::kUnit;
  EXPECT_EQ(print(insert_zero(parse("L0 L1 F0.0 F1.0 F0.1 F1.1 X0 X1 C0.1 B0.1 C1.1 B1.1 B0.0 "
                                    "B1.0 O"),
                              plan, kAlone, 0)),
            "K L0 L1 g.0 F0.0 F1.0 r.0 g.1 F0.1 F1.1 r.1 g.2 X0 R0.2 X1 r.2 R1.2 g.1 C0.1 B0.1 "
            "R0.1 C1.1 B1.1 r.1 R1.1 B0.0 R0.0 B1.0 R1.0 N u.0 u.1 u.2 O ");
}

// Looped, two pipe ranks and two chunks: blocks 1 and 3 on pipe rank 0. Its phases are the forwards
// of chunk 0, all of chunk 1, and the backwards of chunk 0.
TEST(InsertZero, AnotherChunkEndsAPhase) {
  const Placement units = split_evenly(4, {.pipe_ranks = 2, .chunks = 2}, false);
  EXPECT_EQ(by_phase("L0 F0.0 F0.1 L1 F1.0 F1.1 F0.3 F1.3 B1.3 B0.3 B1.1 B1.0 B0.1 B0.0 O", units),
            "L0 g.0 F0.0 g.1 F0.1 L1 F1.0 r.0 F1.1 r.1 g.3 F0.3 F1.3 B1.3 B0.3 r.3 R.3 g.1 B1.1 "
            "B1.0 B0.1 r.1 R.1 B0.0 R.0 N u.0 u.1 u.3 O ");
}

}  // namespace
}  // namespace fm::zero
