// Every rule of one pipe rank, each with the shortest program that breaks it.
#include <gtest/gtest.h>

#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

// The program (the last instruction offends) and what the user is told.
struct Offence {
  std::string program;
  std::string reason;
};

struct Place {
  BuildShape shape;
  int pipe_rank = 0;
};

// Every other pipe rank runs its valid program.
void expect_offences(const Place& place, const std::vector<Offence>& offences) {
  for (const Offence& offence : offences) {
    std::vector<Program> programs = built(place.shape);
    Program& program = programs[static_cast<std::size_t>(place.pipe_rank)];
    program = parse(offence.program);
    const auto refusal = validate(programs, rules_of(place.shape));
    ASSERT_TRUE(refusal) << offence.program;
    EXPECT_EQ(refusal->reason, offence.reason) << offence.program;
    EXPECT_EQ(refusal->pipe_rank, place.pipe_rank) << offence.program;
    EXPECT_EQ(refusal->index, static_cast<int>(program.size()) - 1) << offence.program;
  }
}

// Embedding 0, block 1, head 2.
BuildShape alone(int zero_stage) { return {.blocks = 1, .zero_stage = zero_stage}; }
// Embedding 0 and block 1 | block 2 | block 3 and head 4.
constexpr BuildShape kThreeRanks{.pipe_ranks = 3, .blocks = 3};

TEST(ValidateReasons, Data) {
  expect_offences({alone(0)}, {{"K K", "labels are counted already"},
                               {"L0 L0", "micro-batch 0 is loaded already"},
                               {"K F0.0", "micro-batch 0 is not loaded"}});
  expect_offences({kThreeRanks, 0}, {{"K", "only the head's pipe rank has labels to count"}});
  expect_offences({kThreeRanks, 1}, {{"L0", "only the ends of the pipe load data"}});
  expect_offences({kThreeRanks, 2},
                  {{"K ra0.3 F0.3 X0", "labels of micro-batch 0 are not loaded"}});
}

TEST(ValidateReasons, Forward) {
  expect_offences({alone(0)}, {{"L0 F0.1", "its input comes from F0.0"},
                               {"L0 F0.0 F0.0", "this forward has run already"},
                               {"K L0 F0.0 X0", "its input comes from F0.1"},
                               {"K L0 F0.0 F0.1 X0 X0", "this loss has run already"}});
  expect_offences({kThreeRanks, 0}, {{"L0 F0.0 F0.1 X0", "the head lives on another pipe rank"}});
  expect_offences({kThreeRanks, 1}, {{"F0.2", "its input comes with ra0.2"}});
}

TEST(ValidateReasons, OneTiedGradient) {
  BuildShape shape{.micros = 2, .blocks = 1, .tied = true, .zero_stage = 2};
  shape.one_tied_gradient = true;
  expect_offences({shape},
                  {{"K L0 F0.0 F0.1 X0 R0.2 L1 F1.0 F1.1 X1",
                    "the tied matrix's slot still holds micro-batch 0, which waits for the "
                    "embedding's Reduce"},
                   {"K L0 F0.0 F0.1 X0 R0.2 B0.1 R0.1 B0.0 R0.0 Rt",
                    "this pipe rank holds no end of a tied matrix"}});
}

TEST(ValidateReasons, Backward) {
  const std::string forward = "K L0 F0.0 F0.1 ";
  expect_offences({alone(0)},
                  {{forward + "B0.1", "its gradient comes from X0"},
                   {forward + "X0 B0.0", "its gradient comes from B0.1"},
                   {forward + "X0 B0.1 B0.1", "this backward has run already"},
                   {forward + "X0 B0.2", "the head has no backward; Loss runs it"},
                   {forward + "X0 W0.1", "its backward-input has not run"},
                   {forward + "X0 I0.1 W0.1 W0.1", "this weight gradient is written already"},
                   {forward + "C0.1", "this plan does not recompute the unit"}});
  expect_offences({kThreeRanks, 0}, {{"L0 F0.0 rg0.1 B0.1", "its forward has not run"},
                                     {"L0 F0.0 F0.1 sa0.2 B0.1", "its gradient comes with rg0.1"}});
}

TEST(ValidateReasons, Recomputation) {
  BuildShape shape = alone(0);
  shape.recompute = true;
  const std::string forward = "K L0 F0.0 F0.1 ";
  expect_offences({shape}, {{forward + "X0 B0.1", "it needs C0.1 first"},
                            {forward + "C0.0", "this plan does not recompute the unit"},
                            {"K L0 F0.0 C0.1", "its forward has not run"},
                            {forward + "C0.1 C0.1", "this recomputation has run already"},
                            {forward + "X0 C0.1 B0.1 C0.1", "this recomputation has run already"}});
}

TEST(ValidateReasons, Exchange) {
  expect_offences({alone(0)}, {{"sa0.1", "there is no pipe rank to send to"},
                               {"sg0.1", "there is no pipe rank to send to"},
                               {"ra0.1", "there is no pipe rank to receive from"},
                               {"rg0.1", "there is no pipe rank to receive from"}});
  expect_offences({kThreeRanks, 0}, {{"L0 F0.0 sa0.2", "what it sends is not computed yet"},
                                     {"L0 F0.0 F0.1 sa0.2 sa0.2", "this was sent already"},
                                     {"sa0.3", "unit 2 lives on another pipe rank"},
                                     {"ra0.2", "unit 2 lives on another pipe rank"},
                                     {"sa0.9", "there are only 5 units"},
                                     {"rg0.1 rg0.1", "this was received already"}});
  expect_offences({kThreeRanks, 1},
                  {{"ra0.2 F0.2 sa0.3 rg0.2 sg0.1", "what it sends is not computed yet"},
                   {"ra0.2 ra0.2", "this was received already"},
                   {"ra0.2 F0.2 sa0.3 rg0.2 B0.2 sg0.1 sg0.1", "this was sent already"}});
}

TEST(ValidateReasons, Weights) {
  expect_offences({alone(0)}, {{"g.0", "every rank sees the weights whole"}});
  expect_offences({alone(3)},
                  {{"g.0 g.0", "unit 0 is gathered already"},
                   {"r.0", "unit 0 is not gathered"},
                   {"g.0 r.0", "nothing read the gathered unit 0"},
                   {"L0 F0.0", "weights of unit 0 are not gathered"},
                   {"K L0 g.0 F0.0 r.0 g.1 F0.1 r.1 X0", "weights of unit 2 are not gathered"}});
}

TEST(ValidateReasons, Reductions) {
  const std::string loss = "K L0 F0.0 F0.1 X0 ";
  expect_offences({alone(0)}, {{"R.2", "the gradient of micro-batch 0 is missing"},
                               {loss + "R.1", "the gradient of micro-batch 0 is missing"},
                               {loss + "R.2 R.2", "this gradient is reduced already"},
                               {loss + "Rt", "this pipe rank holds no end of a tied matrix"},
                               {loss + "R.2 N", "the gradient of unit 0 is not reduced"}});
  expect_offences({alone(2)}, {{loss + "R0.1", "its gradient is not there"},
                               {loss + "R0.2 R0.2", "this gradient is reduced already"}});
}

TEST(ValidateReasons, TiedMatrix) {
  BuildShape shape = alone(0);
  shape.tied = true;
  const std::string backward = "K L0 F0.0 F0.1 X0 B0.1 R.1 B0.0 ";
  expect_offences({shape}, {{backward + "R.2 Rt", "the embedding's gradient is not reduced"},
                            {backward + "R.0 Rt", "the head's gradient is not reduced"},
                            {backward + "R.0 R.2 Rt Rt", "the tied gradient is reduced already"},
                            {backward + "R.0 R.2 N", "the tied gradient is not reduced"}});
}

TEST(ValidateReasons, OptimizerBoundary) {
  const std::string reduced = "K L0 F0.0 F0.1 X0 R.2 B0.1 R.1 B0.0 R.0 ";
  expect_offences({alone(1)}, {{reduced + "u.0", "the clipping factor needs the norm"},
                               {reduced + "N N", "the norm is known already"},
                               {reduced + "N p.0", "unit 0 is not updated"},
                               {reduced + "N u.0 u.0", "unit 0 is updated already"},
                               {reduced + "N u.0 p.0 p.0", "unit 0 is published already"},
                               {reduced + "N u.0 p.0 u.1 u.2 p.2 O", "unit 1 is never published"}});
  expect_offences({alone(0)}, {{reduced + "O", "the norm is missing"},
                               {reduced + "N u.0 p.0", "this plan publishes nothing"},
                               {reduced + "N u.0 u.2 O", "unit 1 is never updated"},
                               {reduced + "N u.0 u.1 u.2 O O", "nothing may follow the report"}});
}

TEST(ValidateReasons, WhatTheReportMisses) {
  expect_offences({alone(0)}, {{"K L0 F0.0 O", "B0.0 is missing"},
                               {"K L0 F0.0 F0.1 X0 B0.1 O", "B0.0 is missing"}});
  expect_offences({alone(3)}, {{"K L0 g.0 F0.0 O", "unit 0 is never released"}});
  const std::string first = "L0 F0.0 F0.1 ";
  const std::string last = "K L0 ra0.3 F0.3 ";
  expect_offences({kThreeRanks, 0},
                  {{"O", "F0.0 is missing"}, {first + "rg0.1 B0.1 B0.0 O", "sa0.2 is missing"}});
  expect_offences({kThreeRanks, 1}, {{"ra0.2 F0.2 sa0.3 rg0.2 B0.2 O", "sg0.1 is missing"}});
  expect_offences({kThreeRanks, 2}, {{last + "X0 B0.3 O", "sg0.2 is missing"}});
  BuildShape evaluation = kThreeRanks;
  evaluation.schedule = forward_only;
  expect_offences({evaluation, 2}, {{"L0 ra0.3 F0.3 O", "X0 is missing"}});
}

// Blocks 1 and 2 are one segment: block 2's input is made again by block 1.
TEST(ValidateReasons, InnerBlocksAreRecomputedInOrder) {
  ProgramRules rules = rules_of({.micros = 1, .blocks = 2, .recompute = true});
  rules.units.segment_blocks = 2;
  const auto reason_of = [&](const std::string& again) {
    const auto refusal = validate({parse("K L0 F0.0 F0.1 F0.2 X0 " + again +
                                         "B0.2 B0.1 B0.0 R.3 R.2 R.1 R.0 N u.0 u.1 u.2 u.3 O")},
                                  rules);
    return refusal ? refusal->reason : "";
  };
  EXPECT_EQ(reason_of("C0.1 C0.2 "), "");
  EXPECT_EQ(reason_of("C0.2 C0.1 "), "it needs C0.1 first");
  EXPECT_EQ(reason_of("C0.2 "), "it needs C0.1 first");
}

}  // namespace
}  // namespace fm::pipeline
