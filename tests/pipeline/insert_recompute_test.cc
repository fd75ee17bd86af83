#include <gtest/gtest.h>

#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

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

}  // namespace
}  // namespace fm::pipeline
