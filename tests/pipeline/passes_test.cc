// The small passes.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

std::vector<int> micros_of(const Program& program, Op op) {
  std::vector<int> out;
  for (const Instruction& at : program) {
    if (at.op == op) out.push_back(at.micro);
  }
  return out;
}

std::ptrdiff_t place_of(const Program& program, const Instruction& wanted) {
  return std::find(program.begin(), program.end(), wanted) - program.begin();
}

// By hand with the lowering rule: instructions in the order in which they begin (a forward of a
// block takes 1, a backward 2), and where one ends, its send here and the receive there.
TEST(InsertP2p, OneMicroOverTwoPipeRanks) {
  const auto programs = lowered({.pipe_ranks = 2, .micros = 1, .blocks = 2});
  EXPECT_EQ(print(programs[0]), "L0 F0.0 F0.1 sa0.2 rg0.1 B0.1 B0.0 O ");
  EXPECT_EQ(print(programs[1]), "L0 ra0.2 F0.2 X0 B0.2 sg0.1 O ");
}

TEST(InsertP2p, OneFOneBOverTwoPipeRanks) {
  const auto programs = lowered({.pipe_ranks = 2, .micros = 2, .blocks = 2});
  EXPECT_EQ(print(programs[0]),
            "L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 rg0.1 B0.1 B0.0 rg1.1 B1.1 B1.0 O ");
  // F1.1 ends when F0.2 does, at 2: before B0.2 begins.
  EXPECT_EQ(print(programs[1]), "L0 ra0.2 F0.2 ra1.2 X0 B0.2 sg0.1 L1 F1.2 X1 B1.2 sg1.1 O ");
}

// With a forward of 2.5 on rank 0, that of micro-batch 1 ends at 5; B0.2 runs from 3.5 to 5.5.
TEST(InsertP2p, TheTimesSayWhereAReceiveStands) {
  const BuildShape shape{.pipe_ranks = 2, .micros = 2, .blocks = 2};
  const Placement units = placement_of(shape);
  std::vector<Program> programs;
  for (const int rank : {0, 1}) {
    programs.push_back(expand_units(one_f_one_b(pipe_shape(shape), rank), units, rank));
  }
  const auto times = [&](const Instruction& at, int rank) {
    if (!units.is_block(at.unit)) return 0.0;
    return rank == 0 && at.op == Op::kForward ? 2.5 : row_of(at.op).forwards;
  };
  EXPECT_EQ(print(insert_p2p(programs, units, times)[1]),
            "L0 ra0.2 F0.2 X0 B0.2 ra1.2 sg0.1 L1 F1.2 X1 B1.2 sg1.1 O ");
}

TEST(InsertP2p, OneMicroOverThreePipeRanks) {
  const auto programs = lowered({.schedule = gpipe, .pipe_ranks = 3, .micros = 1, .blocks = 3});
  EXPECT_EQ(print(programs[0]), "L0 F0.0 F0.1 sa0.2 rg0.1 B0.1 B0.0 O ");
  EXPECT_EQ(print(programs[1]), "ra0.2 F0.2 sa0.3 rg0.2 B0.2 sg0.1 O ");
  EXPECT_EQ(print(programs[2]), "L0 ra0.3 F0.3 X0 B0.3 sg0.2 O ");
}

TEST(InsertP2p, EvaluationSendsForwardOnly) {
  const auto programs =
      lowered({.schedule = forward_only, .pipe_ranks = 2, .micros = 1, .blocks = 2});
  EXPECT_EQ(print(programs[0]), "L0 F0.0 F0.1 sa0.2 O ");
  EXPECT_EQ(print(programs[1]), "L0 ra0.2 F0.2 X0 O ");
}

// A slow last rank: two micro-batches wait for it, the next one's F1.1 until it reads the first.
TEST(InsertP2p, AnEvaluationSendsTwoAheadOfASlowRank) {
  const BuildShape shape{.schedule = forward_only, .pipe_ranks = 2, .micros = 5, .blocks = 2};
  const Placement units = placement_of(shape);
  std::vector<Program> programs;
  for (const int rank : {0, 1}) {
    programs.push_back(expand_units(forward_only(pipe_shape(shape), rank), units, rank));
  }
  const auto times = [&](const Instruction& at, int rank) {
    return units.is_block(at.unit) ? 1.0 + 9.0 * rank : 0.0;
  };
  const auto slow = insert_p2p(programs, units, times);
  EXPECT_EQ(print(slow[1]),
            "L0 ra0.2 F0.2 ra1.2 ra2.2 X0 L1 F1.2 ra3.2 X1 L2 F2.2 ra4.2 X2 L3 F3.2 X3 L4 F4.2 X4 "
            "O ");
}

TEST(InsertP2p, NoGradientGoesToUnitsWithoutBackward) {
  const auto two_ranks = [](int first_backward) {
    return lowered({.pipe_ranks = 2, .micros = 1, .blocks = 4, .first_backward = first_backward});
  };
  const auto upper = two_ranks(3);  // 0 1 2 | 3 4, head 5
  EXPECT_EQ(print(upper[0]), "L0 F0.0 F0.1 F0.2 sa0.3 O ");
  EXPECT_EQ(print(upper[1]), "L0 ra0.3 F0.3 F0.4 X0 B0.4 B0.3 O ");
  EXPECT_EQ(print(two_ranks(2)[0]), "L0 F0.0 F0.1 F0.2 sa0.3 rg0.2 B0.2 O ");
  EXPECT_EQ(print(two_ranks(2)[1]), "L0 ra0.3 F0.3 F0.4 X0 B0.4 B0.3 sg0.2 O ");
  EXPECT_EQ(print(two_ranks(5)[1]), "L0 ra0.3 F0.3 F0.4 X0 O ");  // the head alone
}

// The first rank has no backward to wait for. It is ahead by two micro-batches, and no more.
TEST(InsertP2p, AFrozenRankSendsTwoAhead) {
  const auto programs = lowered({.pipe_ranks = 2, .micros = 5, .blocks = 2, .first_backward = 2});
  EXPECT_EQ(print(programs[1]),
            "L0 ra0.2 F0.2 ra1.2 X0 B0.2 ra2.2 L1 F1.2 ra3.2 X1 B1.2 L2 F2.2 ra4.2 X2 B2.2 L3 "
            "F3.2 X3 B3.2 L4 F4.2 X4 B4.2 O ");
}

// Rank 1 does not read micro-batch 1 before chunk 3 of rank 0 has had micro-batch 0, behind F3.1.
TEST(InsertP2p, ARankThatIsTwoAheadGoesOnWhereAllWouldWait) {
  Placement units = split_evenly(4, {.pipe_ranks = 2, .chunks = 2, .order = ChunkOrder::kV}, false);
  units.first_backward = 2;  // rank 0: 0 1 | 4 5; rank 1: 2 3
  const std::vector<Program> scheduled = {
      parse(
          "L0 F0.0 L1 F1.0 L2 F2.0 L3 F3.0 F0.1 X0 B0.1 F1.1 X1 B1.1 F2.1 X2 B2.1 F3.1 X3 B3.1 O"),
      parse("F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0 F2.0 F2.1 B2.1 B2.0 F3.0 F3.1 B3.1 B3.0 O")};
  std::vector<Program> programs;
  for (const int rank : {0, 1}) {
    programs.push_back(expand_units(scheduled[static_cast<std::size_t>(rank)], units, rank));
  }
  const auto lowered = insert_p2p(programs, units);
  EXPECT_EQ(std::ranges::count(lowered[0], Op::kSendAct, &Instruction::op), 4);
  EXPECT_EQ(std::ranges::count(lowered[1], Op::kRecvGrad, &Instruction::op), 4);
}

TEST(InsertP2p, AnInputGradientIsSentBeforeItsWeightGradient) {
  const Placement units = split(2, 2);
  const auto programs = insert_p2p(
      {parse("L0 F0.0 F0.1 I0.1 I0.0 W0.1 W0.0 O"), parse("L0 F0.2 X0 I0.2 W0.2 O")}, units);
  EXPECT_EQ(print(programs[0]), "L0 F0.0 F0.1 sa0.2 rg0.1 I0.1 I0.0 W0.1 W0.0 O ");
  EXPECT_EQ(print(programs[1]), "L0 ra0.2 F0.2 X0 I0.2 sg0.1 W0.2 O ");
}

TEST(InsertP2p, OnePipeRankTalksToNobody) {
  const BuildShape shape{.micros = 3, .blocks = 2};
  const Program alone = expand_units(one_f_one_b({.micros = 3}, 0), placement_of(shape), 0);
  EXPECT_EQ(lowered(shape)[0], alone);
}

// Every boundary: m activations down and m gradients up, received in the order they were sent.
TEST(InsertP2p, PairsMatchExactlyAtEveryBoundary) {
  for (const Schedule schedule : {gpipe, one_f_one_b}) {
    for (int pipe_ranks = 2; pipe_ranks <= 5; ++pipe_ranks) {
      for (int micros = 1; micros <= 9; ++micros) {
        const auto programs = lowered({schedule, pipe_ranks, micros, pipe_ranks + 2});
        for (std::size_t up = 0; up + 1 < programs.size(); ++up) {
          const auto acts = micros_of(programs[up], Op::kSendAct);
          const auto grads = micros_of(programs[up + 1], Op::kSendGrad);
          EXPECT_EQ(acts.size(), static_cast<std::size_t>(micros));
          EXPECT_EQ(grads.size(), static_cast<std::size_t>(micros));
          EXPECT_EQ(micros_of(programs[up + 1], Op::kRecvAct), acts);
          EXPECT_EQ(micros_of(programs[up], Op::kRecvGrad), grads);
        }
        EXPECT_TRUE(micros_of(programs.front(), Op::kRecvAct).empty());
        EXPECT_TRUE(micros_of(programs.back(), Op::kSendAct).empty());
      }
    }
  }
}

// Nothing but receives, which only begin something, stands between an instruction and its send.
void expect_sent_at_once(const Program& program, const Instruction& maker,
                         const Instruction& send) {
  auto at = program.begin() + place_of(program, maker) + 1;
  while (at != program.end() && (at->op == Op::kRecvAct || at->op == Op::kRecvGrad)) ++at;
  EXPECT_EQ(at - program.begin(), place_of(program, send)) << print(send);
}

TEST(InsertP2p, SendsFollowTheirProducerAndReceivesComeBeforeTheirConsumer) {
  const BuildShape shape{.pipe_ranks = 4, .micros = 6, .blocks = 6};
  const Placement units = placement_of(shape);
  const auto programs = lowered(shape);
  for (int rank = 1; rank < 4; ++rank) {
    const Program& here = programs[static_cast<std::size_t>(rank)];
    const Program& before = programs[static_cast<std::size_t>(rank - 1)];
    for (int micro = 0; micro < 6; ++micro) {
      const int input = units.body(rank, 0).first;
      expect_sent_at_once(before, {Op::kForward, micro, input - 1}, {Op::kSendAct, micro, input});
      EXPECT_LT(place_of(here, {Op::kRecvAct, micro, input}),
                place_of(here, {Op::kForward, micro, input}));
      expect_sent_at_once(here, {Op::kBackward, micro, input}, {Op::kSendGrad, micro, input - 1});
      EXPECT_LT(place_of(before, {Op::kRecvGrad, micro, input - 1}),
                place_of(before, {Op::kBackward, micro, input - 1}));
    }
  }
}

// Units 0 1 | 2 and 3 | 4 5 on pipe ranks 0 1 1 0: the V turns on rank 1 without a message.
TEST(InsertP2p, ARankHandsOverToItself) {
  const PipeShape shape{.pipe_ranks = 2, .chunks = 2, .order = ChunkOrder::kV};
  const Placement units = split_evenly(4, shape, false);
  const auto programs = insert_p2p({expand_units(parse("L0 F0.0 F0.1 X0 B0.1 B0.0 O"), units, 0),
                                    expand_units(parse("F0.0 F0.1 B0.1 B0.0 O"), units, 1)},
                                   units);
  EXPECT_EQ(print(programs[0]), "L0 F0.0 F0.1 sa0.2 ra0.4 F0.4 X0 B0.4 sg0.3 rg0.1 B0.1 B0.0 O ");
  EXPECT_EQ(print(programs[1]), "ra0.2 F0.2 F0.3 sa0.4 rg0.3 B0.3 B0.2 sg0.1 O ");
}

TEST(InsertP2p, AnOrderThatDeadlocksByItselfIsADefect) {
  const Placement units = split(2, 2);
  // Rank 0 wants the gradient of micro 1 first, rank 1 makes that of micro 0 first and then waits
  // for an activation that rank 0 sends only afterwards.
  EXPECT_THROW(insert_p2p({parse("L0 F0.0 F0.1 B1.1 L1 F1.0 F1.1 O"),
                           parse("L0 F0.2 X0 B0.2 L1 F1.2 X1 B1.2 O")},
                          units),
               core::BugError);
}

TEST(InsertRecompute, EveryBackwardOfABlockIsPrecededByItsForwardAgain) {
  const Placement units = split(2, 1);
  EXPECT_EQ(print(insert_recompute(parse("K L0 F0.0 F0.1 F0.2 X0 B0.2 B0.1 B0.0 O"), units)),
            "K L0 F0.0 F0.1 F0.2 X0 C0.2 B0.2 C0.1 B0.1 B0.0 O ");
}

TEST(InsertRecompute, ASplitBackwardRecomputesOnceBeforeItsInputHalf) {
  const Placement units = split(1, 1);
  EXPECT_EQ(print(insert_recompute(parse("L0 F0.0 F0.1 X0 I0.1 I0.0 W0.1 W0.0 O"), units)),
            "L0 F0.0 F0.1 X0 C0.1 I0.1 I0.0 W0.1 W0.0 O ");
}

TEST(InsertRecompute, EvaluationRecomputesNothing) {
  const Program program = parse("L0 F0.0 F0.1 X0 O");
  EXPECT_EQ(insert_recompute(program, split(1, 1)), program);
}

// Five blocks, of which two at a time keep one input: 1 2 | 3 4 | 5.
TEST(InsertRecompute, ASegmentIsMadeAgainFromItsFirstBlockOn) {
  Placement units = split(5, 1);
  units.segment_blocks = 2;
  EXPECT_EQ(
      print(insert_recompute(
          parse("L0 F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 X0 B0.5 B0.4 B0.3 B0.2 B0.1 B0.0 O"), units)),
      "L0 F0.0 F0.1 F0.2 F0.3 F0.4 F0.5 X0 C0.5 B0.5 C0.3 C0.4 B0.4 B0.3 C0.1 C0.2 B0.2 B0.1 "
      "B0.0 O ");
}

// Blocks 1 2 3 | 4 5 6 on two pipe ranks: segments of two end where a chunk ends.
TEST(InsertRecompute, SegmentsCountFromTheFirstBlockOfEachChunk) {
  Placement units = split(6, 2);
  units.segment_blocks = 2;
  std::string starts, ends;
  for (int unit = 0; unit < units.unit_count(); ++unit) {
    if (units.starts_segment(unit)) starts += std::to_string(unit);
    if (units.ends_segment(unit)) ends += std::to_string(unit);
  }
  EXPECT_EQ(starts, "1346");
  EXPECT_EQ(ends, "2356");
}

}  // namespace

}  // namespace fm::pipeline
