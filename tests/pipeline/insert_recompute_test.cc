#include <gtest/gtest.h>

#include "pipeline/passes.h"

namespace fm::pipeline {
namespace {

TEST(InsertRecompute, EveryBackwardOfABlockIsPrecededByItsForwardAgain) {
  const UnitRow row = split_units(2, 1, false);
  EXPECT_EQ(print(insert_recompute(parse("K L0 F0.0 F0.1 F0.2 X0 B0.2 B0.1 B0.0 O"), row)),
            "K L0 F0.0 F0.1 F0.2 X0 C0.2 B0.2 C0.1 B0.1 B0.0 O ");
}

TEST(InsertRecompute, ASplitBackwardRecomputesOnceBeforeItsInputHalf) {
  const UnitRow row = split_units(1, 1, false);
  EXPECT_EQ(print(insert_recompute(parse("L0 F0.0 F0.1 X0 I0.1 I0.0 W0.1 W0.0 O"), row)),
            "L0 F0.0 F0.1 X0 C0.1 I0.1 I0.0 W0.1 W0.0 O ");
}

TEST(InsertRecompute, EvaluationRecomputesNothing) {
  const Program program = parse("L0 F0.0 F0.1 X0 O");
  EXPECT_EQ(insert_recompute(program, split_units(1, 1, false)), program);
}

}  // namespace
}  // namespace fm::pipeline
