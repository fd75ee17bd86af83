#include "pipeline/account.h"

#include <gtest/gtest.h>

#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

using core::Bytes;

TEST(PoolSizes, EveryBufferIsAsLargeAsTheRanksLargestUnitNeeds) {
  const BuildShape shape{.pipe_ranks = 2, .micros = 1, .blocks = 3, .zero_stage = 3};
  // Embedding and two blocks on the first rank, a block and the head on the last.
  const std::vector<UnitFootprint> footprints = {
      {.kept = Bytes(0), .parked = Bytes(0), .scratch = Bytes(50), .between = Bytes(0)},
      {.kept = Bytes(700), .parked = Bytes(200), .scratch = Bytes(20), .between = Bytes(0)},
      {.kept = Bytes(600), .parked = Bytes(300), .scratch = Bytes(30), .between = Bytes(0)},
      {.kept = Bytes(900), .parked = Bytes(100), .scratch = Bytes(40), .between = Bytes(0)},
      {.kept = Bytes(0), .parked = Bytes(0), .scratch = Bytes(70), .between = Bytes(0)}};
  const auto of = [&](int rank) {
    return pool_sizes(built(shape)[static_cast<std::size_t>(rank)], placement_of(shape), footprints,
                      false, rank);
  };
  EXPECT_EQ(of(0).kept, Bytes(700));
  EXPECT_EQ(of(0).parked, Bytes(300));
  EXPECT_EQ(of(0).arena, Bytes(50));
  EXPECT_EQ(of(0).gather_slots, 1);
  EXPECT_EQ(of(1).kept, Bytes(900));
  EXPECT_EQ(of(1).parked, Bytes(100));
  EXPECT_EQ(of(1).arena, Bytes(70));
}

TEST(ActivationPeaks, WithoutAPipeByHand) {
  BuildShape shape{.micros = 3, .blocks = 1};
  const auto of = [&] {
    return pool_sizes(built(shape)[0], placement_of(shape), std::vector<UnitFootprint>(3),
                      shape.recompute, 0)
        .peaks;
  };
  const auto expect = [](const ActivationPeaks& peaks, int hidden, int kept, int parked) {
    EXPECT_EQ(peaks.hidden, hidden);
    EXPECT_EQ(peaks.kept, kept);
    EXPECT_EQ(peaks.parked, parked);
  };
  // 1F1B alone: two hidden states, one more while the block goes backward; one micro kept.
  expect(of(), 3, 1, 1);
  shape.schedule = gpipe;  // all three micros wait
  expect(of(), 7, 3, 1);
  shape.recompute = true;
  expect(of(), 7, 1, 1);
}

TEST(ActivationPeaks, OneFOneBOverTwoPipeRanksByHand) {
  const BuildShape shape{.pipe_ranks = 2, .micros = 2, .blocks = 2};
  const Placement units = placement_of(shape);
  // L0 F0.0 F0.1 sa0.2 L1 F1.0 rg0.1 F1.1 sa1.2 B0.1 ..: two inputs of F.1, two sent states that
  // may not have left, a gradient that came early, and the one that B0.1 makes.
  const auto first =
      parse("L0 F0.0 F0.1 sa0.2 L1 F1.0 rg0.1 F1.1 sa1.2 B0.1 B0.0 rg1.1 B1.1 B1.0 O");
  EXPECT_EQ(activation_peaks(first, units, false).hidden, 6);
  EXPECT_EQ(activation_peaks(first, units, false).kept, 2);
  const auto last = parse("L0 ra0.2 F0.2 X0 B0.2 sg0.1 ra1.2 L1 F1.2 X1 B1.2 sg1.1 O");
  EXPECT_EQ(activation_peaks(last, units, false).hidden, 4);
  EXPECT_EQ(activation_peaks(last, units, false).kept, 1);
}

// Two sent states may not have left; the third send waits for the first.
TEST(ActivationPeaks, EveryThirdSendGivesOneBack) {
  const Placement units = split(2, 2).evaluating();
  const auto peak = [&](const char* forwards) {
    return activation_peaks(parse(forwards), units, false).hidden;
  };
  EXPECT_EQ(peak("L0 F0.0 F0.1 sa0.2 O"), 2);
  EXPECT_EQ(peak("L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 O"), 3);
  EXPECT_EQ(peak("L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 L2 F2.0 F2.1 sa2.2 O"), 4);
  EXPECT_EQ(peak("L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 L2 F2.0 F2.1 sa2.2 L3 F3.0 F3.1 sa3.2 O"),
            4);
}

TEST(ActivationPeaks, KeptMicrosFollowTheScheduleAndRecomputationKeepsOne) {
  constexpr int kBlocksPerRank = 2;
  for (int pipe_ranks = 1; pipe_ranks <= 4; ++pipe_ranks) {
    for (const int micros : {1, 3, 6}) {
      BuildShape shape{one_f_one_b, pipe_ranks, micros, pipe_ranks * kBlocksPerRank};
      for (int rank = 0; rank < pipe_ranks; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        shape.schedule = one_f_one_b;
        EXPECT_EQ(activation_peaks(lowered(shape)[at], placement_of(shape), false).kept,
                  kBlocksPerRank * std::min(pipe_ranks - rank, micros));
        shape.schedule = gpipe;
        EXPECT_EQ(activation_peaks(lowered(shape)[at], placement_of(shape), false).kept,
                  kBlocksPerRank * micros);
        const Program again = insert_recompute(lowered(shape)[at], placement_of(shape));
        EXPECT_EQ(activation_peaks(again, placement_of(shape), true).kept, 1);
      }
    }
  }
}

// By hand, six blocks of one rank and three micro-batches under GPipe. After its forwards each
// micro-batch keeps the input of every n-th block and the head's. The peak is in the first backward
// of the last segment, whose inner inputs are made again, with one gradient more.
TEST(ActivationPeaks, SegmentsKeepOneInputAndAllThatTheirBackwardReads) {
  for (const int blocks : {1, 2, 3, 6}) {
    const BuildShape shape{gpipe, 1, 3, 6};
    Placement units = placement_of(shape);
    units.segment_blocks = blocks;
    const Program program = insert_recompute(lowered(shape)[0], units);
    const ActivationPeaks peaks = activation_peaks(program, units, true);
    EXPECT_EQ(peaks.kept, blocks) << blocks;
    EXPECT_EQ(peaks.hidden, 3 * (6 / blocks + 1) + (blocks - 1) + 1) << blocks;
  }
}

TEST(ActivationPeaks, EvaluationKeepsTwoHiddenStatesAndNothingElse) {
  const ActivationPeaks peaks = activation_peaks(
      parse("L0 F0.0 F0.1 F0.2 X0 L1 F1.0 F1.1 F1.2 X1 O"), split(2, 1).evaluating(), false);
  EXPECT_EQ(peaks.hidden, 2);
  EXPECT_EQ(peaks.kept, 1);  // work space of the block that runs
}

// The frozen rank has one hidden state in work and two that may not have left, and lends its blocks
// work space. The other one has the state that it works on and one or two that came early.
TEST(ActivationPeaks, UnitsWithoutBackwardKeepNothing) {
  Placement units = split(4, 2);  // 0 1 2 | 3 4, head 5
  units.first_backward = 3;
  const auto first =
      parse("L0 F0.0 F0.1 F0.2 sa0.3 L1 F1.0 F1.1 F1.2 sa1.3 L2 F2.0 F2.1 F2.2 sa2.3 O");
  EXPECT_EQ(activation_peaks(first, units, false).hidden, 4);  // input and output of F2.1
  EXPECT_EQ(activation_peaks(first, units, false).kept, 1);
  EXPECT_EQ(activation_peaks(first, units, false).parked, 0);
  const auto last = parse("L0 ra0.3 F0.3 F0.4 X0 B0.4 B0.3 ra1.3 L1 F1.3 F1.4 X1 B1.4 B1.3 O");
  // In B0.4 the inputs of both blocks, the gradient that it has and the one that it makes.
  EXPECT_EQ(activation_peaks(last, units, false).hidden, 4);
  EXPECT_EQ(activation_peaks(last, units, false).kept, 2);
  units.first_backward = 4;  // block 3 hands its input on, and takes no gradient
  EXPECT_EQ(activation_peaks(parse("L0 ra0.3 F0.3 F0.4 X0 B0.4 O"), units, false).hidden, 2);
  units.first_backward = 5;  // nor does block 4
  EXPECT_EQ(
      activation_peaks(parse("L0 ra0.3 F0.3 F0.4 X0 L1 ra1.3 F1.3 F1.4 X1 O"), units, false).hidden,
      2);
}

TEST(ActivationPeaks, ASegmentBeginsWithTheFirstBackward) {
  Placement units = split(5, 1);
  units.segment_blocks = 4;
  units.first_backward = 3;  // blocks 3 and 4 of the segment of 1 to 4, and block 5
  const Program program =
      insert_recompute(parse("L0 F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 X0 B0.5 B0.4 B0.3 O"), units);
  EXPECT_EQ(print(program), "L0 F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 X0 C0.5 B0.5 C0.3 C0.4 B0.4 B0.3 O ");
  EXPECT_EQ(activation_peaks(program, units, true).kept, 2);
  // In B0.4 its input, made again, that of block 3, and two gradients.
  EXPECT_EQ(activation_peaks(program, units, true).hidden, 4);
}

TEST(ActivationPeaks, WhatIsParkedWaitsForItsWeightHalf) {
  const Placement units = split(2, 1);
  const auto parked = [&](const char* backward) {
    const Program program = parse(std::string("L0 F0.0 F0.1 F0.2 X0 ") + backward);
    return activation_peaks(program, units, false).parked;
  };
  EXPECT_EQ(parked("B0.2 B0.1 B0.0"), 1);
  EXPECT_EQ(parked("I0.2 W0.2 I0.1 W0.1 I0.0 W0.0"), 1);
  EXPECT_EQ(parked("I0.2 I0.1 W0.2 W0.1 I0.0 W0.0"), 2);
  EXPECT_EQ(parked("I0.2 I0.1 I0.0 W0.2 W0.1 W0.0"), 3);
  const Placement evaluating = units.evaluating();
  EXPECT_EQ(activation_peaks(parse("L0 F0.0 F0.1 F0.2 X0 O"), evaluating, false).parked, 0);
}

TEST(ActivationPeaks, RecomputedValuesWaitForTheWeightHalf) {
  const Program program = parse("L0 F0.0 F0.1 F0.2 X0 C0.2 I0.2 C0.1 I0.1 I0.0 W0.2 W0.1 W0.0 O");
  EXPECT_EQ(activation_peaks(program, split(2, 1), true).kept, 2);
}

TEST(GatherPeak, CountsUnitsWholeAtOnce) {
  EXPECT_EQ(gather_peak(parse("g.0 F0.0 r.0 g.1 F0.1 r.1")), 1);
  EXPECT_EQ(gather_peak(parse("g.0 g.1 F0.0 r.0 g.2 F0.1 r.1 r.2")), 2);
  EXPECT_EQ(gather_peak(parse("F0.0 F0.1")), 0);
}

}  // namespace
}  // namespace fm::pipeline
