#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/generate.h"

namespace fm::engine {
namespace {

const std::vector<float> kLogits = {0.0F, 2.0F, 1.0F, 2.0F};

TEST(Sampler, GreedyTakesTheLargestAndTheFirstOfEquals) {
  EXPECT_EQ(sample(kLogits, {.temperature = 0.0}, 0), 1);
}

TEST(Sampler, TopOneIsGreedyAtAnyTemperature) {
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(sample(kLogits, {.temperature = 5.0, .top_k = 1, .seed = 1}, step), 1);
  }
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  constexpr int kDraws = 20'000;
  constexpr double kTemperature = 0.8;
  std::vector<int> counts(kLogits.size());
  for (int step = 0; step < kDraws; ++step) {
    counts[static_cast<std::size_t>(
        sample(kLogits, {.temperature = kTemperature, .seed = 11}, step))] += 1;
  }
  double total = 0;
  for (const float logit : kLogits) total += std::exp(logit / kTemperature);
  for (std::size_t id = 0; id < kLogits.size(); ++id) {
    const double expected = std::exp(kLogits[id] / kTemperature) / total;
    const double sigma = std::sqrt(expected * (1 - expected) / kDraws);
    EXPECT_NEAR(counts[id] / double{kDraws}, expected, 4 * sigma) << id;
  }
}

TEST(Sampler, DependsOnSeedAndStepOnly) {
  const SamplerOptions options{.temperature = 1.0, .seed = 5};
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> other;
  for (int step = 0; step < 40; ++step) {
    first.push_back(sample(kLogits, options, step));
    EXPECT_EQ(sample(kLogits, options, step), first.back());
    other.push_back(sample(kLogits, {.temperature = 1.0, .seed = 6}, step));
  }
  EXPECT_NE(first, other);
}

TEST(Sampler, TopKLeavesOutTheRest) {
  for (int step = 0; step < 200; ++step) {
    const std::int32_t id = sample(kLogits, {.temperature = 3.0, .top_k = 2, .seed = 2}, step);
    EXPECT_TRUE(id == 1 || id == 3) << id;
  }
}

}  // namespace
}  // namespace fm::engine
