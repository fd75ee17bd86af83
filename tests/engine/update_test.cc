// The update against arithmetic: with plain SGD a step is lr x clipping factor x gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "small_run.h"

namespace fm::engine {
namespace {

TrainOptions sgd_options(double clipping) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_update", false);
  options.optimizer = {.rule = &optim::kSgd, .lr = 1.0};
  options.gradient_clipping = clipping;
  return options;
}

// Weights before any update: a learning rate of zero.
RunTrace untouched() {
  TrainOptions options = sgd_options(0.0);
  options.optimizer.lr = 0.0;
  return run_small(options, 1, 1);
}

TEST(Update, ClippingScalesTheWholeGradientToTheThreshold) {
  const RunTrace start = untouched();
  const RunTrace free = run_small(sgd_options(0.0), 1, 1);
  const RunTrace clipped = run_small(sgd_options(0.05), 1, 1);
  ASSERT_GT(free.norms[0], 0.05);
  EXPECT_EQ(free.norms[0], clipped.norms[0]);  // reported before clipping
  const double factor = 0.05 / (free.norms[0] + 1e-6);
  double length = 0.0;
  double worst = 0.0;
  for (const auto& [name, before] : start.weights) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double moved = double{before[i]} - double{clipped.weights.at(name)[i]};
      const double whole = double{before[i]} - double{free.weights.at(name)[i]};
      length += moved * moved;
      worst = std::max(worst, std::abs(moved - factor * whole));
    }
  }
  EXPECT_NEAR(std::sqrt(length), 0.05, 1e-4);
  EXPECT_LT(worst, 2e-7);  // rounding of weights near 1
}

TEST(Update, AThresholdAboveTheNormChangesNoBit) {
  EXPECT_EQ(first_difference(run_small(sgd_options(0.0), 2, 2), run_small(sgd_options(1e6), 2, 2)),
            "");
}

TEST(Update, NormsWithoutDecayKeepTheirPlaceUnderPureDecay) {
  TrainOptions options = sgd_options(1e-9);  // the gradient is clipped to nothing
  options.optimizer.lr = 0.5;
  options.optimizer.weight_decay = 0.5;
  options.no_decay.norm = true;
  const RunTrace after = run_small(options, 2, 1);
  for (const float value : after.weights.at("model.norm.weight")) EXPECT_NEAR(value, 1.0, 1e-6);
  const RunTrace before = untouched();
  const std::string matrix = "model.layers.0.mlp.up_proj.weight";
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(after.weights.at(matrix)[i], 0.75 * before.weights.at(matrix)[i], 1e-6);
  }
}

}  // namespace
}  // namespace fm::engine
