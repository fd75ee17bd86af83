// Published numbers of 1F1B and GPipe: bubble 3 (p - 1) at F = 1, B = 2, and the 1F1B column of
// tables 5 and 6 of "Zero Bubble Pipeline Parallelism" (ICLR 2024, arXiv 2401.10241).
#include "pipeline/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

struct Times {
  double forward = 1.0;
  double backward = 2.0;
  double comm = 0.0;
};

// One block per pipe rank costs, everything else is free.
Simulation run(const BuildShape& shape, const Times& times) {
  const Placement units = placement_of(shape);
  const auto cost = [&](const Instruction& at, int) {
    if (at.op == Op::kForward && units.is_block(at.unit)) return times.forward;
    if (at.op == Op::kBackward && units.is_block(at.unit)) return times.backward;
    return 0.0;
  };
  return simulate(lowered(shape), units, cost, times.comm);
}

TEST(Simulate, BubbleOfBothSchedulesIsThreeTimesTheOtherPipeRanks) {
  for (const Schedule schedule : {gpipe, one_f_one_b}) {
    for (int pipe_ranks = 1; pipe_ranks <= 8; ++pipe_ranks) {
      for (int micros = 1; micros <= 32; ++micros) {
        const Simulation out = run({schedule, pipe_ranks, micros, pipe_ranks}, {});
        ASSERT_EQ(out.makespan - 3 * micros, 3 * (pipe_ranks - 1))
            << pipe_ranks << " pipe ranks, " << micros << " micros";
      }
    }
  }
}

TEST(Simulate, FourPipeRanksAndEightMicrosTakeThirtyThree) {
  for (const Schedule schedule : {gpipe, one_f_one_b}) {
    const Simulation out = run({schedule, 4, 8, 4}, {});
    EXPECT_EQ(out.makespan, 33.0);
    EXPECT_EQ(out.busy, (std::vector<double>(4, 24.0)));
    EXPECT_NEAR(out.bubble(), 3.0 / 11.0, 1e-12);  // (p - 1) / (m + p - 1)
  }
}

TEST(Simulate, MatchesTheOneFOneBColumnOfTheZeroBubblePaper) {
  struct Row {
    int micros;
    double forward, input, weight, comm, rate;
  };
  constexpr Row kRows[] = {{24, 18.522, 18.086, 9.337, 0.601, 0.2431},
                           {64, 18.546, 18.097, 9.321, 0.762, 0.1240},
                           {24, 29.718, 29.444, 19.927, 0.527, 0.2347},
                           {32, 29.802, 29.428, 19.530, 0.577, 0.1898}};
  for (const Row& row : kRows) {
    const double backward = row.input + row.weight;
    const Simulation out = run({one_f_one_b, 8, row.micros, 8}, {row.forward, backward, row.comm});
    // Cost is the longest stage; pipe rank 0 starts first and ends last, so it is the makespan.
    const double work = row.micros * (row.forward + backward);
    EXPECT_NEAR((out.makespan - work) / out.makespan, row.rate, 5e-5);
    EXPECT_NEAR(out.bubble(), row.rate, 5e-5);
  }
}

TEST(Simulate, AReceiveHoldsUpItsConsumerOnly) {
  const Placement units = split(2, 2);
  // rg0.1 is posted before F1.1, whose input is there: F1.1 must not wait for the gradient.
  const std::vector<Program> programs = {
      parse("L0 F0.0 F0.1 sa0.2 L1 F1.0 rg0.1 F1.1 sa1.2 B0.1 B0.0 rg1.1 B1.1 B1.0 O"),
      parse("L0 ra0.2 F0.2 X0 B0.2 sg0.1 ra1.2 L1 F1.2 X1 B1.2 sg1.1 O")};
  const auto cost = [](const Instruction& at, int) {
    if (at.op == Op::kForward && at.unit != 0) return 1.0;
    return at.op == Op::kBackward && at.unit != 0 ? 2.0 : 0.0;
  };
  // Rank 0: F 0-1, F 1-2, B 4-6, B 7-9. Rank 1: F 1-2, B 2-4, F 4-5, B 5-7.
  EXPECT_EQ(simulate(programs, units, cost).makespan, 9.0);
  // With 0.5 on the wire rank 1: F 1.5-2.5, B 2.5-4.5, F 4.5-5.5, B 5.5-7.5; rank 0 ends at 10.
  EXPECT_EQ(simulate(programs, units, cost, 0.5).makespan, 10.0);
}

// The times that the test above works out by hand.
TEST(Simulate, TheTimelineSaysWhenEachInstructionRan) {
  const Placement units = split(2, 2);
  const std::vector<Program> programs = {parse("L0 F0.0 F0.1 sa0.2 rg0.1 B0.1 B0.0 O"),
                                         parse("L0 ra0.2 F0.2 X0 B0.2 sg0.1 O")};
  const auto cost = [](const Instruction& at, int) {
    if (at.op == Op::kForward && at.unit != 0) return 1.0;
    return at.op == Op::kBackward && at.unit != 0 ? 2.0 : 0.0;
  };
  const Simulation out = simulate(programs, units, cost, 0.5);
  ASSERT_EQ(out.timeline.size(), 2U);
  std::string text;
  for (const auto& of_rank : out.timeline) {
    for (const TimedInstruction& one : of_rank) {
      if (one.end > one.begin)
        text += print(one.at) + " " + std::to_string(one.begin).substr(0, 3) + " ";
    }
  }
  // Rank 0: F 0-1, B 5-7. Rank 1: F 1.5-2.5, B 2.5-4.5.
  EXPECT_EQ(text, "F0.1 0.0 B0.1 5.0 F0.2 1.5 B0.2 2.5 ");
}

TEST(Simulate, NothingToWaitForIsNoBubble) {
  const Simulation out = run({one_f_one_b, 1, 5, 3}, {});
  EXPECT_EQ(out.makespan, 45.0);
  EXPECT_EQ(out.bubble(), 0.0);
}

TEST(Simulate, ProgramsThatWaitForEverAreADefect) {
  const Placement units = split(2, 2);
  const auto cost = [](const Instruction&, int) { return 1.0; };
  EXPECT_THROW(
      simulate({parse("L0 F0.0 F0.1 rg0.1 B0.1 O"), parse("L0 ra0.2 F0.2 X0 B0.2 sg0.1 O")}, units,
               cost),
      core::BugError);
}

}  // namespace
}  // namespace fm::pipeline
