// Programs before and after the pass, by hand, and the proof of what it makes.
#include "offload/insert_offload.h"

#include <gtest/gtest.h>

#include "built_programs.h"
#include "pipeline/ring_places.h"

namespace fm::offload {
namespace {

using pipeline::BuildShape;
using pipeline::ProgramRules;

// Embedding 0, blocks 1 to 3, head 4.
ProgramRules rules_with(int awake) {
  return {.units = pipeline::split(3, 1), .micros = 1, .plan = {}, .awake = awake};
}
std::string with_ring(const std::string& program, int awake, Reads reads = Reads::kBehindForwards) {
  return print(insert_offload(pipeline::parse(program), rules_with(awake), reads));
}

constexpr const char* kEnd = "X0 R.4 N u.0 u.1 u.2 u.3 u.4 O ";

TEST(InsertOffload, WhereNoStateSleepsNothingMoves) { EXPECT_EQ(with_ring(kEnd, 0), kEnd); }

TEST(InsertOffload, ARingOfTwoIsFilledAgainDirectlyBehindAStore) {
  EXPECT_EQ(with_ring(kEnd, 2),
            "f.0 f.1 X0 R.4 N u.0 s.0 f.2 u.1 s.1 f.3 u.2 s.2 f.4 u.3 s.3 u.4 s.4 O ");
}

// Unit 3 takes the place of unit 0, and unit 4 that of unit 1.
TEST(InsertOffload, InALargerRingAUnitArrivesDuringTwoUpdates) {
  EXPECT_EQ(with_ring(kEnd, 3),
            "f.0 f.1 f.2 X0 R.4 N u.0 s.0 f.3 u.1 s.1 f.4 u.2 s.2 u.3 s.3 u.4 s.4 O ");
}

// The ends have places of their own, and the other two are three each.
TEST(InsertOffload, SmallUnitsTakeSmallPlaces) {
  ProgramRules rules = rules_with(4);
  rules.units = pipeline::split(8, 1);
  rules.end_blocks = 3;
  EXPECT_EQ(print(insert_offload(
                pipeline::parse("X0 R.9 N u.0 u.1 u.2 u.3 u.4 u.5 u.6 u.7 u.8 u.9 O "), rules)),
            "f.0 f.1 f.2 f.3 f.4 f.5 f.6 f.9 X0 R.9 N u.0 s.0 u.1 s.1 f.7 u.2 s.2 f.8 u.3 s.3 "
            "u.4 s.4 u.5 s.5 u.6 s.6 u.7 s.7 u.8 s.8 u.9 s.9 O ");
}

TEST(InsertOffload, ARingForAllIsFilledBeforeTheFirstGradient) {
  EXPECT_EQ(with_ring("L0 F0.0 F0.1 F0.2 F0.3 X0 R.4 N u.0 u.1 u.2 u.3 u.4 O ", 8),
            "L0 F0.0 F0.1 F0.2 F0.3 f.0 f.1 f.2 f.3 f.4 X0 R.4 N "
            "u.0 s.0 u.1 s.1 u.2 s.2 u.3 s.3 u.4 s.4 O ");
}

TEST(InsertOffload, WhereForwardsReadNothingTheRingIsFilledFromTheStart) {
  EXPECT_EQ(
      with_ring("L0 F0.0 F0.1 F0.2 F0.3 X0 R.4 N u.0 u.1 u.2 u.3 u.4 O ", 8, Reads::kFromStart),
      "f.0 f.1 f.2 f.3 f.4 L0 F0.0 F0.1 F0.2 F0.3 X0 R.4 N "
      "u.0 s.0 u.1 s.1 u.2 s.2 u.3 s.3 u.4 s.4 O ");
}

TEST(InsertOffload, WithoutReadingAheadAFetchStandsBeforeItsUpdate) {
  EXPECT_EQ(with_ring(kEnd, 3, Reads::kInPlace),
            "X0 R.4 N f.0 u.0 s.0 f.1 u.1 s.1 f.2 u.2 s.2 f.3 u.3 s.3 f.4 u.4 s.4 O ");
}

TEST(InsertOffload, PublicationsStandBehindTheStore) {
  EXPECT_EQ(with_ring("N u.0 p.0 u.1 p.1 u.2 p.2 O ", 2),
            "N f.0 f.1 u.0 s.0 f.2 p.0 u.1 s.1 p.1 u.2 s.2 p.2 O ");
}

// Pipe rank 1 has a block, the head, and the head's end of the matrix: three flat parameters.
TEST(InsertOffload, TheHeadOfATiedModelTakesTwoPlaces) {
  ProgramRules rules = rules_with(2);
  rules.units = pipeline::split(3, 2, true);
  EXPECT_EQ(pipeline::ring_places(rules.units, 3, {3}), std::vector<int>({0}));
  EXPECT_EQ(pipeline::ring_places(rules.units, 4, {3}), std::vector<int>({1, 2}));
  EXPECT_EQ(pipeline::ring_places(rules.units, 4, {2}), std::vector<int>({1, 0}));
  EXPECT_EQ(pipeline::ring_places(rules.units, 3, {2, 2}), std::vector<int>({1}));
  EXPECT_EQ(pipeline::ring_places(rules.units, 4, {2, 2}), std::vector<int>({2, 0}));
  const auto with = [&](int awake) {
    rules.awake = awake;
    return print(insert_offload(pipeline::parse("N u.3 u.4 O"), rules));
  };
  EXPECT_EQ(with(2), "f.3 N u.3 s.3 f.4 u.4 s.4 O ");
  EXPECT_EQ(with(3), "f.3 f.4 N u.3 s.3 u.4 s.4 O ");
  rules.units = pipeline::split(3, 1, true);  // the embedding has the head's end
  EXPECT_EQ(pipeline::ring_places(rules.units, 4, {3}), std::vector<int>({1}));
}

TEST(InsertOffload, EveryProgramIsProven) {
  for (const int awake : {2, 3, 4, 16}) {
    for (const int pipe_ranks : {1, 2}) {
      for (const bool tied : {false, true}) {
        for (const Reads reads : {Reads::kFromStart, Reads::kBehindForwards, Reads::kInPlace}) {
          const BuildShape shape = {
              .pipe_ranks = pipe_ranks, .micros = 3, .blocks = 5, .tied = tied, .zero_stage = 2};
          std::vector<pipeline::Program> programs = built(shape);
          ProgramRules rules = rules_of(shape);
          rules.awake = awake;
          rules.end_blocks = 1 + awake % 3;
          for (pipeline::Program& program : programs) {
            program = insert_offload(program, rules, reads);
          }
          const auto refusal = pipeline::validate(programs, rules);
          EXPECT_FALSE(refusal) << pipeline::describe(*refusal, programs);
        }
      }
    }
  }
}

std::string verdict(const std::string& end, int awake) {
  const std::vector<pipeline::Program> programs = {
      pipeline::parse("K L0 F0.0 F0.1 X0 R.2 B0.1 R.1 B0.0 R.0 " + end)};
  const ProgramRules rules = {
      .units = pipeline::split(1, 1), .micros = 1, .plan = {}, .awake = awake};
  const auto refusal = pipeline::validate(programs, rules);
  return refusal ? pipeline::describe(*refusal, programs) : "";
}

TEST(InsertOffload, TheProofKnowsWhatIsAwake) {
  EXPECT_EQ(verdict("N f.0 u.0 s.0 f.1 u.1 s.1 f.2 u.2 s.2 O", 2), "");
  EXPECT_EQ(verdict("N f.0 u.0 s.0 u.1", 2),
            "pipe rank 0, instruction 14 (u.1): the state of unit 1 is not fetched");
  EXPECT_EQ(verdict("N f.0 f.1 f.2", 2),
            "pipe rank 0, instruction 13 (f.2): unit 0 is in its place, and not stored yet");
  EXPECT_EQ(verdict("N f.0 f.0", 2),
            "pipe rank 0, instruction 12 (f.0): unit 0 is fetched already");
  EXPECT_EQ(verdict("N f.0 s.0", 2), "pipe rank 0, instruction 12 (s.0): unit 0 is not updated");
  EXPECT_EQ(verdict("N f.0 u.0 s.0 s.0", 2),
            "pipe rank 0, instruction 14 (s.0): unit 0 is stored already");
  EXPECT_EQ(verdict("N f.0 u.0 s.0 f.1 u.1 s.1 f.2 u.2 O", 2),
            "pipe rank 0, instruction 19 (O): unit 2 is never stored");
  EXPECT_EQ(verdict("N f.0", 0), "pipe rank 0, instruction 11 (f.0): in this plan no state sleeps");
}

}  // namespace
}  // namespace fm::offload
