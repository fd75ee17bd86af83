// mean_of_means: every slot counts alike, however many of its labels count. Its loss and its
// gradient are the means of what the slots give one by one; with SGD and a learning rate of 1 so
// are its weights after one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "small_run.h"

namespace fm::engine {
namespace {

constexpr int kSlots = 4;
constexpr std::array<std::size_t, kSlots> kCounted = {16, 5, 0, 1};  // of 16 labels

// Sample p is row (first + p) % 4, of which the first kCounted labels count.
class UnequalRows : public data::SampleSource {
 public:
  explicit UnequalRows(int first) : first_(first) {}
  std::int64_t samples_per_epoch() const override { return kSlots; }
  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    const auto row = static_cast<std::size_t>((first_ + position) % kSlots);
    for (std::size_t t = 0; t < tokens_T.size(); ++t) {
      tokens_T[t] = static_cast<std::int32_t>((100 * row + 7 * t) % 777);
      labels_T[t] =
          t < kCounted[row] ? static_cast<std::int32_t>((31 * row + 5 * t) % 777) : data::kIgnored;
    }
  }
  std::string describe() const override { return "unequal rows"; }
  std::string fingerprint() const override { return "unequal rows"; }

 private:
  int first_;
};

TrainOptions sgd_options() {
  TrainOptions options = small_options(testing::TempDir() + "/fm_loss_reduction", false);
  options.optimizer = {.rule = &optim::kSgd, .lr = 1.0};
  options.gradient_clipping = 0.0;
  return options;
}

// One step of one slot: its mean over tokens.
RunTrace run_slot(int slot) {
  const UnequalRows rows(slot);
  TrainOptions options = sgd_options();
  options.batch = {1, 1, {}};
  return run_small(options, 1, 1, &rows);
}

double largest_difference(const std::map<std::string, std::vector<float>>& weights,
                          const std::map<std::string, std::vector<double>>& expected) {
  double largest = 0.0;
  for (const auto& [name, values] : expected) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(double{weights.at(name)[i]} - values[i]));
    }
  }
  return largest;
}

struct Means {
  double loss = 0.0;
  std::map<std::string, std::vector<double>> weights;
};

const Means& means_of_slots() {
  static const Means kMeans = [] {
    Means means;
    for (int slot = 0; slot < kSlots; ++slot) {
      const RunTrace trace = run_slot(slot);
      means.loss += trace.losses.at(0) / kSlots;
      for (const auto& [name, values] : trace.weights) {
        std::vector<double>& sums = means.weights[name];
        sums.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) sums[i] += double{values[i]} / kSlots;
      }
    }
    return means;
  }();
  return kMeans;
}

TEST(LossReduction, ASlotWithoutLabelsThatCountHasNoLoss) {
  EXPECT_EQ(run_slot(2).losses.at(0), 0.0);
  EXPECT_EQ(run_slot(2).norms.at(0), 0.0);
  EXPECT_NEAR(run_slot(0).losses.at(0), std::log(777.0), 1.0);
}

TEST(LossReduction, MeanOfMeansIsTheMeanOverSlotsInEveryLayout) {
  struct Layout {
    int zero_stage, pipe, dp;
  };
  for (const Layout& layout : {Layout{0, 1, 1}, Layout{1, 1, 2}, Layout{3, 1, 4}, Layout{2, 2, 2},
                               Layout{0, 1, 3}, Layout{3, 1, 3}}) {
    TrainOptions options = sgd_options();
    options.loss_reduction = LossReduction::kMeanOfMeans;
    options.zero_stage = layout.zero_stage;
    options.pipe_parallel_size = layout.pipe;
    const UnequalRows rows(0);
    const RunTrace trace = run_small(options, layout.dp, 1, &rows);
    EXPECT_NEAR(trace.losses.at(0), means_of_slots().loss, 1e-9) << layout.zero_stage;
    // Rounding of weights near 1, once per update.
    EXPECT_LT(largest_difference(trace.weights, means_of_slots().weights), 1e-6);
  }
}

TEST(LossReduction, TokenIsTheMeanOverAllTokens) {
  double expected = 0.0;
  double tokens = 0.0;
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto counted = static_cast<double>(kCounted[static_cast<std::size_t>(slot)]);
    expected += counted * run_slot(slot).losses.at(0);
    tokens += counted;
  }
  const UnequalRows rows(0);
  const RunTrace trace = run_small(sgd_options(), 2, 1, &rows);
  EXPECT_NEAR(trace.losses.at(0), expected / tokens, 1e-9);
  EXPECT_GT(std::abs(trace.losses.at(0) - means_of_slots().loss), 1e-3);
  EXPECT_GT(largest_difference(trace.weights, means_of_slots().weights), 1e-3);
}

}  // namespace
}  // namespace fm::engine
