// What a step comes to, by hand from sums over its pipe ranks.
#include "engine/step/step_result.h"

#include <gtest/gtest.h>

#include <limits>

namespace fm::engine {
namespace {

// A norm of 5, and 8 labels of 2 nats each.
constexpr StepSums kSums{.squared = 25.0, .loss_sum = 16.0, .valid = 8.0};

TEST(FinalizeStep, DividesTheLossByTheLabelsAndTheNormByTheLossScale) {
  StepResult result;
  EXPECT_EQ(finalize_step({.gradient_clipping = 0.0, .loss_scale = 4.0}, kSums, result), 0.25F);
  EXPECT_EQ(result.loss, 2.0);
  EXPECT_EQ(result.valid, 8);
  EXPECT_EQ(result.grad_norm, 1.25);
  EXPECT_FALSE(result.clipped);
  EXPECT_FALSE(result.skipped);
}

TEST(FinalizeStep, LeavesAMeanOfMeansAsItIs) {
  StepResult result;
  finalize_step({.loss_reduction = LossReduction::kMeanOfMeans}, kSums, result);
  EXPECT_EQ(result.loss, 16.0);
}

TEST(FinalizeStep, ClipsAtTheDefaultWhereNothingElseIsAsked) {
  StepResult result;
  const float scale = finalize_step({}, kSums, result);
  EXPECT_TRUE(result.clipped);
  EXPECT_EQ(scale, static_cast<float>(kGradientClipping / (5.0 + 1e-6)));
}

TEST(FinalizeStep, SkipsWhatIsNotFiniteOrOverflows) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto skipped = [](const StepSums& sums) {
    StepResult result;
    finalize_step({}, sums, result);
    return result.skipped;
  };
  StepSums norm = kSums, loss = kSums, overflow = kSums;
  norm.squared = kNan;
  loss.loss_sum = kNan;
  overflow.overflows = 1.0;
  for (const StepSums& sums : {norm, loss, overflow}) EXPECT_TRUE(skipped(sums));
  EXPECT_FALSE(skipped(kSums));
}

}  // namespace
}  // namespace fm::engine
