#include "engine/infer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fm::engine {
namespace {

const std::vector<float> kLogits = {0.0F, 2.0F, 1.0F, 2.0F};

std::int32_t pick(const SamplerOptions& options, std::int64_t step) {
  return sample(kLogits, {}, options, {.step = step});
}

TEST(Sampler, GreedyTakesTheLargestAndTheFirstOfEquals) {
  EXPECT_EQ(pick({.temperature = 0.0}, 0), 1);
}

TEST(Sampler, TopOneIsGreedyAtAnyTemperature) {
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(pick({.temperature = 5.0, .top_k = 1, .seed = 1}, step), 1);
  }
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  constexpr int kDraws = 20'000;
  constexpr double kTemperature = 0.8;
  std::vector<int> counts(kLogits.size());
  for (int step = 0; step < kDraws; ++step) {
    counts[static_cast<std::size_t>(pick({.temperature = kTemperature, .seed = 11}, step))] += 1;
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
    first.push_back(pick(options, step));
    EXPECT_EQ(pick(options, step), first.back());
    other.push_back(pick({.temperature = 1.0, .seed = 6}, step));
  }
  EXPECT_NE(first, other);
}

TEST(Sampler, TopKLeavesOutTheRest) {
  for (int step = 0; step < 200; ++step) {
    const std::int32_t id = pick({.temperature = 3.0, .top_k = 2, .seed = 2}, step);
    EXPECT_TRUE(id == 1 || id == 3) << id;
  }
}

TEST(Sampler, SequencesDrawTheirOwn) {
  const SamplerOptions options{.temperature = 1.0, .seed = 5};
  std::vector<std::int32_t> first, second;
  for (int step = 0; step < 40; ++step) {
    first.push_back(sample(kLogits, {}, options, {.sequence = 1, .step = step}));
    second.push_back(sample(kLogits, {}, options, {.sequence = 2, .step = step}));
  }
  EXPECT_NE(first, second);
}

// RepetitionPenaltyLogitsProcessor and the warpers of transformers 5.23, in its order, then a
// softmax.
TEST(Sampler, CandidatesAreThoseOfTransformers) {
  const std::vector<float> logits = {3.081992F,  -0.586858F, -4.357579F, 1.136863F,
                                     -2.169045F, -2.797191F, 0.806694F,  1.676053F,
                                     -1.438515F, -0.806687F, -1.193271F, 0.364073F};
  const std::vector<std::int32_t> history = {3, 5, 5, 9};
  using Probabilities = std::vector<std::pair<std::int32_t, double>>;
  struct Row {
    SamplerOptions options;
    Probabilities expected;
  };
  for (const Row& row : {
           Row{{.temperature = 0.7},
               {{0, 0.78776358},
                {7, 0.1057115},
                {3, 0.04893252},
                {6, 0.03053191},
                {11, 0.01622343},
                {1, 0.00417028},
                {9, 0.00304634},
                {10, 0.00175362},
                {8, 0.00123532},
                {4, 0.00043505},
                {5, 0.00017735},
                {2, 1.909e-05}}},
           Row{{.temperature = 1.0, .repetition_penalty = 1.3},
               {{0, 0.62605649},
                {7, 0.15346946},
                {3, 0.06885195},
                {6, 0.0643375},
                {11, 0.04132723},
                {1, 0.01596806},
                {9, 0.01006189},
                {10, 0.00870744},
                {8, 0.00681369},
                {4, 0.00328184},
                {5, 0.00075662},
                {2, 0.00036783}}},
           Row{{.temperature = 1.0, .top_k = 4},
               {{0, 0.67074847}, {7, 0.16442511}, {3, 0.09589609}, {6, 0.06893033}}},
           Row{{.temperature = 1.0, .top_p = 0.8},
               {{0, 0.72040632}, {7, 0.17659807}, {3, 0.10299561}}},
           Row{{.temperature = 1.0, .min_p = 0.1},
               {{0, 0.67074847}, {7, 0.16442511}, {3, 0.09589609}, {6, 0.06893033}}},
           Row{{.temperature = 0.6,
           .top_k = 8,
           .top_p = 0.9,
           .min_p = 0.02,
           .repetition_penalty = 1.5},
               {{0, 0.91239474}, {7, 0.08760526}}},
           Row{{.temperature = 2.0, .top_k = 3, .top_p = 0.5}, {{0, 1.0}}},
       }) {
    Probabilities got;
    for (const Candidate& each : candidates(logits, history, row.options)) {
      got.emplace_back(each.id, each.probability);
    }
    ASSERT_EQ(got.size(), row.expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].first, row.expected[i].first) << i;
      EXPECT_NEAR(got[i].second, row.expected[i].second, 2e-7) << i;
    }
  }
}

TEST(Sampler, GreedyKnowsThePenalty) {
  const std::vector<float> logits = {2.0F, 1.9F, -1.0F};
  const std::vector<std::int32_t> history = {0};
  EXPECT_EQ(sample(logits, history, {.repetition_penalty = 1.2}, {}), 1);
  EXPECT_EQ(sample(logits, {}, {.repetition_penalty = 1.2}, {}), 0);
}

}  // namespace
}  // namespace fm::engine
