#include "pipeline/insert_tiles.h"

#include <gtest/gtest.h>

#include "pipeline/validate.h"
#include "zero/insert_zero.h"

namespace fm::pipeline {
namespace {

// Units 0, 1, 2 and the tiles 3, 4 of the embedding and 5, 6 of the head.
Placement placed() {
  Placement units({{{0, 3}, 0}}, 1);
  units.add_tiles(2, 2);
  return units;
}

std::string tiled(const char* program) { return print(insert_tiles(parse(program), placed())); }

TEST(InsertTiles, EachEndGoesThroughItsTilesInOrder) {
  EXPECT_EQ(tiled("L0 F0.0 F0.1 X0 B0.1 B0.0 O "),
            "L0 F0.3 F0.4 F0.0 F0.1 F0.2 F0.5 F0.6 C0.5 C0.6 W0.5 W0.6 X0 B0.1 I0.0 W0.3 W0.4 W0.0 "
            "O ");
}

TEST(InsertTiles, MicroBatchesThatFollowEachOtherShareATile) {
  EXPECT_EQ(tiled("F0.0 F1.0 X0 X1 B0.0 B1.0 "),
            "F0.3 F1.3 F0.4 F1.4 F0.0 F1.0 F0.2 F1.2 F0.5 F1.5 F0.6 F1.6 C0.5 C1.5 C0.6 C1.6 W0.5 "
            "W1.5 W0.6 W1.6 X0 X1 I0.0 I1.0 W0.3 W1.3 W0.4 W1.4 W0.0 W1.0 ");
  EXPECT_EQ(tiled("I0.0 W0.0 "), "I0.0 W0.3 W0.4 W0.0 ");
}

TEST(InsertTiles, EvaluationHasTwoPassesOverTheHead) {
  const Placement units = placed().evaluating();
  EXPECT_EQ(print(insert_tiles(parse("F0.1 X0 "), units)), "F0.1 F0.2 F0.5 F0.6 C0.5 C0.6 X0 ");
}

TEST(InsertTiles, WithoutTilesNothingChanges) {
  const Program program = parse("L0 F0.0 F0.1 X0 B0.1 B0.0 O ");
  EXPECT_EQ(insert_tiles(program, Placement({{{0, 3}, 0}}, 1)), program);
}

// The whole program of one micro-batch, gathered tile by tile.
Program whole_program() {
  return zero::insert_zero(
      insert_tiles(parse("L0 F0.0 F0.1 X0 B0.1 B0.0 O "), placed()),
      core::plan_of(3, core::SumOrder::kFast, core::ParamSharing::kPrivate, {}), placed(), 0);
}

std::string refusal_of(const Program& program) {
  const auto plan = core::plan_of(3, core::SumOrder::kFast, core::ParamSharing::kPrivate, {});
  const ProgramRules rules{.units = placed(), .micros = 1, .plan = plan};
  const auto refusal = validate({program}, rules);
  return refusal ? describe(*refusal, {program}) : "";
}

TEST(InsertTiles, ValidationAcceptsTheProgram) { EXPECT_EQ(refusal_of(whole_program()), ""); }

// Without any one of its instructions, or with two of an end's in the other order, it is refused.
TEST(InsertTiles, ValidationRefusesEveryProgramThatLacksAPass) {
  const Program whole = whole_program();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (row_of(whole[at].op).forwards == 0.0) continue;
    Program without = whole;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_NE(refusal_of(without), "") << print(whole[at]);
  }
  for (const auto& [first, second] : {std::pair{"F0.3", "F0.4"},
                                      {"C0.5", "C0.6"},
                                      {"W0.5", "W0.6"},
                                      {"F0.6", "C0.5"},
                                      {"C0.6", "W0.5"},
                                      {"W0.6", "X0"},
                                      {"F0.4", "F0.0"},
                                      {"W0.4", "W0.0"}}) {
    Program swapped = whole;
    const auto place = [&](const char* picture) {
      return std::ranges::find(swapped, parse(picture).front());
    };
    std::iter_swap(place(first), place(second));
    EXPECT_NE(refusal_of(swapped), "") << first << " " << second;
  }
}

}  // namespace
}  // namespace fm::pipeline
