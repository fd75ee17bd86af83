#include "kernels/pointwise/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

using Labels = std::vector<std::int32_t>;

// Loss of each row in fp64; -100 gives 0.
Doubles row_losses(const Floats& logits, const Labels& labels, std::size_t vocab) {
  Doubles losses;
  for (std::size_t r = 0; r < labels.size(); ++r) {
    const float* row = logits.data() + r * vocab;
    const double max = *std::max_element(row, row + vocab);
    double sum = 0.0;
    for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(row[i]) - max);
    const bool counted = labels[r] != -100;
    losses.push_back(counted ? std::log(sum) + max - static_cast<double>(row[labels[r]]) : 0.0);
  }
  return losses;
}

// The kernels as functions of the sum before.
double sum_of(LogitRows shape, float* logits, const std::int32_t* labels, double scale,
              double sum) {
  cross_entropy({}, shape, logits, labels, {scale}, &sum);
  return sum;
}
double sum_of_loss(LogitRows shape, const float* logits, const std::int32_t* labels, double sum) {
  cross_entropy_loss({}, shape, logits, labels, &sum);
  return sum;
}

TEST(CrossEntropy, LossAndGradientEqualTheFormulaInDouble) {
  for (const std::int64_t vocab : {1LL, 5LL, 16LL, 777LL, 2500LL}) {
    const auto last = static_cast<std::int32_t>(vocab - 1);
    const Labels labels = {0, last, -100, last / 2};
    Floats logits = random_values(4 * vocab, 7, 5.0F);
    const Doubles losses = row_losses(logits, labels, static_cast<std::size_t>(vocab));
    const double scale = 1.0 / 3.0;
    Doubles expected;
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::int64_t i = 0; i < vocab; ++i) {
        const float* row = logits.data() + static_cast<std::int64_t>(r) * vocab;
        // log p of the label is -loss; log p of element i follows from the difference of logits.
        const double log_p = labels[r] == -100 ? -INFINITY
                                               : -losses[r] + static_cast<double>(row[i]) -
                                                     static_cast<double>(row[labels[r]]);
        expected.push_back(scale * (std::exp(log_p) - (i == labels[r] ? 1.0 : 0.0)));
      }
    }
    const double before = 2.5;
    const double loss_only = sum_of_loss({4, vocab}, logits.data(), labels.data(), before);
    const double loss = sum_of({4, vocab}, logits.data(), labels.data(), scale, before);
    EXPECT_EQ(loss, loss_only);
    EXPECT_NEAR(loss, before + losses[0] + losses[1] + losses[3], 2e-6);
    EXPECT_LT(difference(expected, logits), 1e-6) << "vocabulary " << vocab;
  }
}

// Finite differences of the loss by the numbers that the logits are formed of.
TEST(CrossEntropy, TheGradientOfFormedLogitsIsThatOfWhatTheyAreFormedOf) {
  const Labels labels = {0, 36, -100, 5};
  const Floats raw = random_values(4 * 37, 9, 6.0F);
  for (const LogitForm& form : {LogitForm{0.25F, 0.0F}, LogitForm{0.7F, 3.0F}, {1.0F, 30.0F}}) {
    const auto formed = [&](double x) {
      const auto cap = static_cast<double>(form.softcap);
      const double scaled = x * static_cast<double>(form.scale);
      return cap > 0.0 ? cap * std::tanh(scaled / cap) : scaled;
    };
    Floats logits = raw;
    form_logits({}, {4, 37}, form, logits.data());
    Doubles expected;
    double loss = 0.0;
    for (std::size_t row = 0; row < 4; ++row) {
      const auto loss_of = [&](std::size_t at, double step) {
        if (labels[row] == kIgnoredLabel) return 0.0;
        double sum = 0.0;
        double of_label = 0.0;
        for (std::size_t i = 0; i < 37; ++i) {
          const double x = formed(double{raw[row * 37 + i]} + (i == at ? step : 0.0));
          sum += std::exp(x);
          if (i == static_cast<std::size_t>(labels[row])) of_label = x;
        }
        return std::log(sum) - of_label;
      };
      loss += loss_of(0, 0.0);
      for (std::size_t i = 0; i < 37; ++i) {
        EXPECT_NEAR(double{logits[row * 37 + i]}, formed(double{raw[row * 37 + i]}), 2e-6);
        expected.push_back(0.5 * (loss_of(i, 1e-5) - loss_of(i, -1e-5)) / 2e-5);
      }
    }
    const double alone = sum_of_loss({4, 37}, logits.data(), labels.data(), 0.0);
    double sum = 0.0;
    cross_entropy({}, {4, 37}, logits.data(), labels.data(),
                  {0.5 * static_cast<double>(form.scale), form.softcap}, &sum);
    EXPECT_EQ(sum, alone);
    EXPECT_NEAR(sum, loss, 1e-5);
    EXPECT_LT(difference(expected, logits), 2e-6);
  }
}

TEST(CrossEntropy, IgnoredRowIsExactlyZeroWhateverItHolds) {
  Floats logits(20, std::numeric_limits<float>::quiet_NaN());
  const Labels labels = {-100};
  EXPECT_EQ(sum_of({1, 20}, logits.data(), labels.data(), 1.0, 0.0), 0.0);
  EXPECT_EQ(logits, Floats(20, 0.0F));
}

TEST(CrossEntropy, ChunksChainToTheSameBits) {
  const Floats logits = random_values(6 * 33, 8, 3.0F);
  const Labels labels = {3, 1, -100, 32, 7, 0};
  Floats whole = logits;
  Floats parts = logits;
  const double at_once = sum_of({6, 33}, whole.data(), labels.data(), 0.25, 0.0);
  double chained = sum_of({2, 33}, parts.data(), labels.data(), 0.25, 0.0);
  chained = sum_of({4, 33}, parts.data() + 66, labels.data() + 2, 0.25, chained);
  EXPECT_EQ(at_once, chained);
  EXPECT_EQ(whole, parts);
}

TEST(CrossEntropy, MaximumMayLieBehindTheWholeLanes) {
  Floats logits(17, 0.0F);
  logits[16] = 200.0F;  // e^200 is beyond fp32 unless the maximum is taken out
  const Labels labels = {0};
  EXPECT_DOUBLE_EQ(sum_of({1, 17}, logits.data(), labels.data(), 1.0, 0.0), 200.0);
  EXPECT_EQ(logits[16], 1.0F);
}

TEST(CrossEntropy, HugeLogitsStayFiniteAndNanIsSeen) {
  Floats logits = {1e4F, -1e4F, 0.0F};
  const Labels labels = {1};
  EXPECT_NEAR(sum_of({1, 3}, logits.data(), labels.data(), 1.0, 0.0), 2e4, 1e-2);
  EXPECT_EQ(logits, (Floats{1.0F, -1.0F, 0.0F}));
  Floats poisoned = {0.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F};
  const Labels first = {0};
  EXPECT_TRUE(std::isnan(sum_of_loss({1, 3}, poisoned.data(), first.data(), 0.0)));
  EXPECT_TRUE(std::isnan(sum_of({1, 3}, poisoned.data(), first.data(), 1.0, 0.0)));
}

}  // namespace
}  // namespace fm::kernels
