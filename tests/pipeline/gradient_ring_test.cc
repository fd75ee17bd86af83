// Gradients that take a few places in turn: when they fit, where they rest, and updates that do not
// wait for the norm.
#include "pipeline/gradient_ring.h"

#include <gtest/gtest.h>

#include "offload/insert_offload.h"
#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

// Embedding 0, blocks 1 and 2, head 3.
const Placement kUnits = split(2, 1);
constexpr const char* kForward = "K L0 F0.0 F0.1 F0.2 ";

ProgramRules rules(const GradientRing& ring, int micros = 1) {
  return {.units = kUnits,
          .micros = micros,
          .plan = core::plan_of(1, core::SumOrder::kFast),
          .awake = ring.places,
          .gradients = ring};
}

std::string refusal(const std::string& program, const ProgramRules& rules) {
  const auto refused = validate({parse(program)}, rules);
  return refused ? print(parse(program)[static_cast<std::size_t>(refused->index)]) + ": " +
                       refused->reason
                 : "";
}

TEST(GradientRing, AUnitRestsBehindItsLastReduction) {
  const Program program = parse("X0 R0.3 X1 R1.3 B0.2 R0.2 B1.2 R1.2 N u.2 u.3 O");
  EXPECT_EQ(print(insert_rest(program, {.places = 2, .rests = true}, kUnits)),
            "X0 R0.3 X1 R1.3 z.3 B0.2 R0.2 B1.2 R1.2 z.2 N u.2 u.3 O ");
  EXPECT_EQ(print(insert_rest(program, {.places = 2, .updates_early = true}, kUnits)),
            "X0 R0.3 X1 R1.3 u.3 B0.2 R0.2 B1.2 R1.2 u.2 N O ");
}

TEST(GradientRing, AnEarlyUpdateFindsItsWeightsInTheSlot) {
  const Program program = parse(
      "g.3 X0 R0.3 X1 r.3 R1.3 g.2 B0.2 R0.2 B1.2 r.2 R1.2 B0.0 R0.0 B1.0 R1.0 N u.0 u.2 u.3 "
      "O");
  EXPECT_TRUE(may_take_from_slots(program, kUnits));
  EXPECT_FALSE(may_take_from_slots(parse("g.2 I0.2 r.2 W0.2 R0.2"), kUnits));
  EXPECT_EQ(print(insert_rest(
                program, {.places = 2, .updates_early = true, .takes_from_slots = true}, kUnits)),
            "g.3 X0 R0.3 X1 R1.3 u.3 r.3 g.2 B0.2 R0.2 B1.2 R1.2 u.2 r.2 B0.0 R0.0 B1.0 R1.0 u.0 "
            "N O ");
}

// The embedding has the gradient of the head's end to wait for.
TEST(GradientRing, ATiedMatrixStaysInMemoryAndWaitsForTheNorm) {
  Placement tied = kUnits;
  tied.tied = true;
  const Program program = parse("X0 R.3 B0.0 R.0 Rt N u.0 u.3 O");
  EXPECT_EQ(print(insert_rest(program, {.places = 2, .rests = true}, tied)),
            "X0 R.3 z.3 B0.0 R.0 Rt N u.0 u.3 O ");
  EXPECT_EQ(print(insert_rest(program, {.places = 2, .updates_early = true}, tied)),
            "X0 R.3 u.3 B0.0 R.0 Rt N u.0 O ");
  Placement ends = split(2, 2, true);
  EXPECT_EQ(print(insert_rest(program, {.places = 2, .updates_early = true}, ends)),
            "X0 R.3 B0.0 R.0 Rt N u.0 u.3 O ");
}

TEST(GradientRing, FitsWhereAUnitIsFinishedBeforeAnotherNeedsItsPlace) {
  const Program unit_major = parse("X0 X1 R.3 B0.2 B1.2 R.2 B0.1 B1.1 R.1 B0.0 B1.0 R.0");
  EXPECT_TRUE(fits_ring(unit_major, 1, kUnits));
  const Program micro_major = parse("X0 B0.2 B0.1 B0.0 X1 R.3 B1.2 R.2 B1.1 R.1 B1.0 R.0");
  EXPECT_FALSE(fits_ring(micro_major, 3, kUnits));
  EXPECT_TRUE(fits_ring(micro_major, 4, kUnits));
  EXPECT_TRUE(fits_ring(parse("X0 R.3 B0.2 R.2 B0.1 R.1 B0.0 R.0"), 1, kUnits));
  Placement tied = kUnits;
  tied.tied = true;  // its gradient begins with the head's, and has a place of its own
  EXPECT_TRUE(fits_ring(parse("X0 R.3 B0.2 R.2 B0.1 R.1 B0.0 R.0"), 1, tied));
}

TEST(GradientRing, TheRulesProveIt) {
  const ProgramRules resting = rules({.places = 2, .rests = true});
  const std::string step = kForward;
  const std::string end = " N f.0 u.0 s.0 p.0 f.1 u.1 s.1 p.1 f.2 u.2 s.2 p.2 f.3 u.3 s.3 p.3 O";
  const std::string all = "X0 R.3 z.3 B0.2 R.2 z.2 B0.1 R.1 z.1 B0.0 R.0";
  EXPECT_EQ(refusal(step + all + " z.0" + end, resting), "");
  EXPECT_EQ(refusal(step + all + end, resting), "f.0: its gradient does not rest");
  EXPECT_EQ(refusal(step + "X0 z.3", resting), "z.3: its gradient is not reduced");
  EXPECT_EQ(refusal(step + "X0 R.3 z.3 z.3", resting), "z.3: it rests already");
  EXPECT_EQ(refusal(step + "X0 R.3 z.3 f.3 z.3", resting), "z.3: it is fetched already");
  EXPECT_EQ(refusal(step + "X0 R.3 B0.2 B0.1", resting),
            "B0.1: its place still holds the gradient of unit 3");
  EXPECT_EQ(refusal(step + "X0 R.3 z.3 B0.2 f.3 B0.1", resting),
            "B0.1: its place still holds the gradient of unit 3");
  EXPECT_EQ(refusal(step + "X0 R.3 z.3", rules({})), "z.3: its gradient stays in memory");
}

TEST(GradientRing, TheRulesProveEarlyUpdates) {
  const ProgramRules early = rules({.places = 2, .updates_early = true});
  const std::string step = kForward;
  EXPECT_EQ(refusal(step + "X0 R.3 f.3 u.3 s.3 p.3 B0.2 R.2 f.2 u.2 s.2 p.2 B0.1 R.1 f.1 u.1 s.1 "
                           "p.1 B0.0 R.0 f.0 u.0 s.0 p.0 N O",
                    early),
            "");
  EXPECT_EQ(refusal(step + "X0 f.3 u.3", early), "u.3: its gradient is not reduced");
  EXPECT_EQ(refusal(step + "X0 R.3 u.3", early), "u.3: the state of unit 3 is not fetched");
  EXPECT_EQ(refusal(step + "X0 R.3 f.3 u.3", rules({.places = 2})),
            "u.3: the clipping factor needs the norm");
}

// As far ahead as the ring allows, and behind the last gradient that rests.
TEST(GradientRing, FetchesComeBehindWhatRests) {
  const ProgramRules resting = rules({.places = 2, .rests = true});
  const Program program =
      insert_rest(parse("K L0 F0.0 F0.1 F0.2 X0 R.3 B0.2 R.2 B0.1 R.1 B0.0 R.0 N u.0 p.0 u.1 p.1 "
                        "u.2 p.2 u.3 p.3 O"),
                  resting.gradients, kUnits);
  const Program offloaded = offload::insert_offload(program, resting);
  EXPECT_EQ(print(offloaded),
            "K L0 F0.0 F0.1 F0.2 X0 R.3 z.3 B0.2 R.2 z.2 B0.1 R.1 z.1 B0.0 R.0 z.0 f.0 f.1 N u.0 "
            "s.0 f.2 p.0 u.1 s.1 f.3 p.1 u.2 s.2 p.2 u.3 s.3 p.3 O ");
  EXPECT_FALSE(validate({offloaded}, resting));
}

}  // namespace
}  // namespace fm::pipeline
