// Offences by name. The exhaustive search for offences that escape is validate_mutation_test.cc.
#include "pipeline/validate.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

// The line a user would see, "" when the programs are valid.
std::string verdict_of(const std::vector<Program>& programs, const ProgramRules& rules) {
  const auto refusal = validate(programs, rules);
  return refusal ? describe(*refusal, programs) : "";
}

std::string verdict(const std::vector<std::string>& pictures, const ProgramRules& rules) {
  std::vector<Program> programs;
  for (const std::string& each : pictures) programs.push_back(parse(each));
  return verdict_of(programs, rules);
}

// One pipe rank, one block: units 0, 1, head 2.
ProgramRules alone(int micros, int zero_stage, core::SumOrder order = core::SumOrder::kFast) {
  return rules_of({.micros = micros, .blocks = 1, .zero_stage = zero_stage, .order = order});
}

// Two pipe ranks with one block each: units 0 1 | 2, head 3; two micro-batches, ZeRO 0.
const ProgramRules kTwoRanks = rules_of({.pipe_ranks = 2, .micros = 2, .blocks = 2});

TEST(Validate, AcceptsAStepWrittenByHand) {
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R.2 B0.1 R.1 B0.0 R.0 N u.0 u.1 u.2 O"}, alone(1, 0)), "");
}

TEST(Validate, NamesRankIndexInstructionAndReason) {
  const std::string rank0 =
      "L0 g.0 F0.0 r.0 g.1 F0.1 r.1 sa0.2 rg0.1 g.1 B0.1 r.1 R0.1 B0.0 R0.0 N u.0 u.1 O";
  const std::string rank1 =
      "K L0 ra0.2 F0.2 r.2 g.3 X0 r.3 R0.3 g.2 B0.2 r.2 R0.2 sg0.1 N u.2 u.3 O";
  EXPECT_EQ(verdict({rank0, rank1},
                    rules_of({.pipe_ranks = 2, .micros = 1, .blocks = 2, .zero_stage = 3})),
            "pipe rank 1, instruction 3 (F0.2): weights of unit 2 are not gathered");
}

TEST(Validate, WhatIsMissingAtTheEndIsNamedAtTheEnd) {
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R.2 B0.1 R.1 B0.0 R.0 N u.0 u.1 u.2"}, alone(1, 0)),
            "pipe rank 0, instruction 14 (the end): the report is missing");
}

TEST(Validate, RefusesOperandsThatDoNotExist) {
  EXPECT_EQ(verdict({"K L1 F1.0 O"}, alone(1, 0)),
            "pipe rank 0, instruction 1 (L1): there are only 1 micro-batches");
  EXPECT_EQ(verdict({"L0 F0.0 F0.1 sa0.2 F0.2", "O"}, kTwoRanks),
            "pipe rank 0, instruction 4 (F0.2): unit 2 lives on another pipe rank");
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 F0.2"}, alone(1, 0)),
            "pipe rank 0, instruction 4 (F0.2): the head has no forward; Loss runs it");
}

TEST(Validate, RefusesALossWithoutItsDivisor) {
  EXPECT_EQ(verdict({"L0 F0.0 F0.1 X0"}, alone(1, 0)),
            "pipe rank 0, instruction 3 (X0): the loss divisor is not counted");
}

TEST(Validate, RefusesMicrosAddedInTheWrongOrder) {
  const std::string forwards = "K L0 F0.0 F0.1 L1 F1.0 F1.1 ";
  const std::string end = " N u.0 u.1 u.2 O";
  const std::string first = "X0 R0.2 B0.1 R0.1 B0.0 R0.0";
  const std::string second = "X1 R1.2 B1.1 R1.1 B1.0 R1.0";
  for (const int zero_stage : {0, 1}) {
    const ProgramRules rules = alone(2, zero_stage, core::SumOrder::kCanonical);
    const std::string publish = zero_stage == 0 ? end : " N u.0 p.0 u.1 p.1 u.2 p.2 O";
    EXPECT_EQ(verdict({forwards + first + " " + second + publish}, rules), "");
    EXPECT_EQ(verdict({forwards + second + " " + first + publish}, rules),
              "pipe rank 0, instruction 8 (R1.2): gradients are added in the order of "
              "micro-batches");
  }
}

TEST(Validate, RefusesAGradientSlotThatIsStillFull) {
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 B0.1 R0.2 R0.1"}, alone(1, 2)),
            "pipe rank 0, instruction 5 (B0.1): the gradient slot still holds 0.2, which waits "
            "for its Reduce");
}

TEST(Validate, RefusesReducingPerMicroWhereThePlanReducesOnce) {
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R0.2"}, alone(1, 0)),
            "pipe rank 0, instruction 5 (R0.2): this plan reduces once per step");
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R.2"}, alone(1, 2)),
            "pipe rank 0, instruction 5 (R.2): this plan reduces every micro-batch");
}

TEST(Validate, RefusesOffloadThatNobodyPlanned) {
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R.2 B0.1 R.1 B0.0 R.0 N f.0 u.0 s.0"}, alone(1, 0)),
            "pipe rank 0, instruction 11 (f.0): in this plan no state sleeps");
}

TEST(Validate, AcceptsASplitBackwardAndRefusesItsHalvesExchanged) {
  const ProgramRules rules = alone(1, 0);
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R.2 I0.1 W0.1 R.1 I0.0 W0.0 R.0 N u.0 u.1 u.2 O"}, rules),
            "");
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 R.2 W0.1 R.1 I0.1"}, rules),
            "pipe rank 0, instruction 6 (W0.1): its backward-input has not run");
}

TEST(Validate, AcceptsWeightHalvesThatWait) {
  EXPECT_EQ(
      verdict({"K L0 F0.0 F0.1 X0 R.2 I0.1 I0.0 W0.1 R.1 W0.0 R.0 N u.0 u.1 u.2 O"}, alone(1, 0)),
      "");
  EXPECT_EQ(verdict({"K L0 F0.0 F0.1 X0 L1 F1.0 F1.1 I0.1 X1 R.2 I1.1 I1.0 I0.0 W0.1 W1.1 R.1 "
                     "W1.0 W0.0 R.0 N u.0 u.1 u.2 O"},
                    alone(2, 0)),
            "");
}

// GPipe by hand; what rank 0 sends and rank 1 receives is filled in.
std::vector<std::string> two_ranks(const std::string& sends, const std::string& receives,
                                   const std::string& grad_sends = "sg0.1 sg1.1",
                                   const std::string& grad_receives = "rg0.1 rg1.1") {
  return {
      "L0 F0.0 F0.1 L1 F1.0 F1.1 " + sends + " " + grad_receives +
          " B0.1 B0.0 B1.1 R.1 B1.0 R.0 N u.0 u.1 O",
      "K L0 L1 " + receives + " F0.2 F1.2 X0 B0.2 X1 R.3 B1.2 R.2 " + grad_sends + " N u.2 u.3 O"};
}

TEST(Validate, AcceptsTransfersInTheSameOrderOnBothSides) {
  EXPECT_EQ(verdict(two_ranks("sa0.2 sa1.2", "ra0.2 ra1.2"), kTwoRanks), "");
  EXPECT_EQ(verdict(two_ranks("sa1.2 sa0.2", "ra1.2 ra0.2"), kTwoRanks), "");
  EXPECT_EQ(
      verdict(two_ranks("sa0.2 sa1.2", "ra0.2 ra1.2", "sg1.1 sg0.1", "rg1.1 rg0.1"), kTwoRanks),
      "");
}

TEST(Validate, RefusesHiddenStatesThatCross) {
  EXPECT_EQ(
      verdict(two_ranks("sa1.2 sa0.2", "ra0.2 ra1.2"), kTwoRanks),
      "pipe rank 0, instruction 6 (sa1.2): waits for ra1.2 of pipe rank 1, which waits in ra0.2");
  EXPECT_EQ(
      verdict(two_ranks("sa0.2 sa1.2", "ra1.2 ra0.2"), kTwoRanks),
      "pipe rank 0, instruction 6 (sa0.2): waits for ra0.2 of pipe rank 1, which waits in ra1.2");
}

TEST(Validate, RefusesGradientsThatCross) {
  EXPECT_EQ(
      verdict(two_ranks("sa0.2 sa1.2", "ra0.2 ra1.2", "sg1.1 sg0.1"), kTwoRanks),
      "pipe rank 0, instruction 8 (rg0.1): waits for sg0.1 of pipe rank 1, which waits in sg1.1");
  EXPECT_EQ(
      verdict(two_ranks("sa0.2 sa1.2", "ra0.2 ra1.2", "sg0.1 sg1.1", "rg1.1 rg0.1"), kTwoRanks),
      "pipe rank 0, instruction 8 (rg1.1): waits for sg1.1 of pipe rank 1, which waits in sg0.1");
}

// Receive directly before use, send directly after production: each rank is right by itself, but
// rank 0 wants to send down while rank 1 wants to send up.
TEST(Validate, RefusesACircleOfRendezvousThatEachRankAloneCannotSee) {
  EXPECT_EQ(
      verdict({"L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 rg0.1 B0.1 B0.0 rg1.1 B1.1 R.1 B1.0 R.0 "
               "N u.0 u.1 O",
               "K L0 ra0.2 F0.2 X0 B0.2 sg0.1 L1 ra1.2 F1.2 X1 R.3 B1.2 R.2 sg1.1 N u.2 u.3 O"},
              kTwoRanks),
      "pipe rank 0, instruction 7 (sa1.2): waits for ra1.2 of pipe rank 1, which waits in sg0.1");
}

TEST(Validate, AcceptsEvaluationUnderEveryZeroStage) {
  for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
    for (int pipe_ranks = 1; pipe_ranks <= 4; ++pipe_ranks) {
      const BuildShape shape{.schedule = forward_only,
                             .pipe_ranks = pipe_ranks,
                             .micros = 3,
                             .blocks = 5,
                             .tied = true,
                             .zero_stage = zero_stage};
      EXPECT_EQ(verdict_of(built(shape), rules_of(shape)), "");
    }
  }
}

TEST(Validate, AcceptsEveryFirstBackwardAndRefusesOneBelow) {
  for (const bool recompute : {false, true}) {
    for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
      for (int pipe_ranks = 1; pipe_ranks <= 3; ++pipe_ranks) {
        for (int first = 0; first <= 6; ++first) {
          for (const Schedule schedule : {one_f_one_b, zb_h1}) {
            const BuildShape shape{.schedule = schedule,
                                   .pipe_ranks = pipe_ranks,
                                   .micros = 3,
                                   .blocks = 5,
                                   .recompute = recompute,
                                   .zero_stage = zero_stage,
                                   .first_backward = first};
            EXPECT_EQ(verdict_of(built(shape), rules_of(shape)), "") << first;
          }
        }
      }
    }
  }
  const ProgramRules rules = rules_of({.micros = 1, .blocks = 2, .first_backward = 2});
  const std::string begin = "K L0 F0.0 F0.1 F0.2 X0 R.3 ";
  EXPECT_EQ(verdict({begin + "B0.2 R.2 N u.2 u.3 O"}, rules), "");
  EXPECT_EQ(verdict({begin + "B0.2 R.2 B0.1"}, rules),
            "pipe rank 0, instruction 9 (B0.1): nothing is trained in this unit or before it");
  EXPECT_EQ(verdict({begin + "N"}, rules),
            "pipe rank 0, instruction 7 (N): the gradient of unit 2 is not reduced");
}

TEST(Validate, RefusesTrainingInAnEvaluation) {
  const ProgramRules rules = rules_of({.schedule = forward_only, .blocks = 1});
  EXPECT_EQ(verdict({"K L0"}, rules),
            "pipe rank 0, instruction 0 (K): evaluation counts with the loss");
  EXPECT_EQ(verdict({"L0 F0.0 F0.1 X0 B0.1"}, rules),
            "pipe rank 0, instruction 4 (B0.1): evaluation has no backward");
  EXPECT_EQ(verdict({"L0 F0.0 F0.1 X0 N"}, rules),
            "pipe rank 0, instruction 4 (N): evaluation has no gradients");
}

TEST(Validate, OneProgramPerPipeRankIsOurOwnDuty) {
  EXPECT_THROW(static_cast<void>(validate({parse("O")}, kTwoRanks)), core::BugError);
}

}  // namespace
}  // namespace fm::pipeline
