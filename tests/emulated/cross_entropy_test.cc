// Softmax cross-entropy of CUDA devices.
#include "kernels/pointwise/cross_entropy.h"

#include <cmath>

#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using kernels::Doubles;
using kernels::Floats;
using kernels::kIgnoredLabel;
using kernels::LogitRows;
using kernels::random_values;
using Labels = std::vector<std::int32_t>;

const core::Work kHere;

// Labels of all parts of the vocabulary; every fourth row is ignored.
Labels some_labels(LogitRows shape) {
  Labels labels;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t label = r % 4 == 1 ? shape.width - 1 : r * 7919 % shape.width;
    labels.push_back(r % 4 == 2 ? kIgnoredLabel : static_cast<std::int32_t>(label));
  }
  return labels;
}

struct Result {
  double sum = 0.0;
  Doubles gradients;
};

// The formula in fp64, from the sum before.
Result expected_of(LogitRows shape, const float* logits, const Labels& labels, double scale,
                   double before) {
  Result result{before, {}};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const float* const row = logits + r * shape.width;
    const std::int32_t label = labels[static_cast<std::size_t>(r)];
    const auto max = static_cast<double>(*std::max_element(row, row + shape.width));
    double sum = 0.0;
    for (std::int64_t i = 0; i < shape.width; ++i) sum += std::exp(double{row[i]} - max);
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const double softmax = std::exp(double{row[i]} - max) / sum;
      const double gradient = scale * (softmax - (i == label ? 1.0 : 0.0));
      result.gradients.push_back(label == kIgnoredLabel ? 0.0 : gradient);
    }
    if (label != kIgnoredLabel) result.sum += std::log(sum) + (max - double{row[label]});
  }
  return result;
}

// Root of the sum of squares of differences over that of the expected values.
double distance(const Doubles& expected, const float* got) {
  double apart = 0.0;
  double all = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    apart += std::pow(expected[i] - double{got[i]}, 2.0);
    all += expected[i] * expected[i];
  }
  return all == 0.0 ? apart : std::sqrt(apart / all);
}

struct Outcome {
  Floats logits;
  double sum = 0.0;
};
Outcome run_of(const LogitRows& shape, const Floats& before, std::size_t off, const Labels& labels,
               double scale) {
  Outcome run{before, 2.5};
  table().cross_entropy(kHere, shape, run.logits.data() + off, labels.data(), {scale}, &run.sum);
  return run;
}
// Of all that a run leaves.
std::vector<std::uint32_t> bits_of(const Outcome& run) {
  std::vector<std::uint32_t> bits(run.logits.size() + 2);
  std::memcpy(bits.data(), run.logits.data(), 4 * run.logits.size());
  std::memcpy(bits.data() + run.logits.size(), &run.sum, sizeof(run.sum));
  return bits;
}

constexpr LogitRows kShapes[] = {{1, 1},     {5, 1},     {3, 2},     {2, 3},     {5, 7},
                                 {4, 8},     {30, 33},   {1, 64},    {6, 129},   {3, 1000},
                                 {50, 2051}, {2, 16383}, {4, 16384}, {2, 17001}, {3, 50257}};

TEST(EmulatedCrossEntropy, LossAndGradientEqualTheFormulaInDouble) {
  for (const LogitRows& shape : kShapes) {
    for (const std::size_t off : {0U, 1U, 2U}) {
      const Labels labels = some_labels(shape);
      const double scale = 1.0 / 3.0;
      const auto extra = static_cast<std::int64_t>(off);
      const Floats before = random_values(shape.rows * shape.width + extra, 7, 5.0F);
      const Result expected = expected_of(shape, before.data() + off, labels, scale, 2.5);
      const Outcome run = run_of(shape, before, off, labels, scale);
      EXPECT_NEAR(run.sum, expected.sum, 1e-6 * static_cast<double>(shape.rows)) << shape.width;
      EXPECT_LT(distance(expected.gradients, run.logits.data() + off), 1e-6) << shape.width;
      EXPECT_TRUE(off == 0 || run.logits[off - 1] == before[off - 1]);
      double loss_only = 2.5;
      table().cross_entropy_loss(kHere, shape, before.data() + off, labels.data(), &loss_only);
      EXPECT_EQ(run.sum, loss_only) << shape.width;
    }
  }
}

Floats formed(const kernels::LogitForm& form, const Floats& raw) {
  Floats logits = raw;
  for (float& logit : logits) {
    const auto cap = static_cast<double>(form.softcap);
    const double scaled = double{logit} * static_cast<double>(form.scale);
    logit = static_cast<float>(cap > 0.0 ? cap * std::tanh(scaled / cap) : scaled);
  }
  return logits;
}
Doubles times_slopes(Doubles gradients, float softcap, const Floats& logits) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] *= 1.0 - std::pow(double{logits[i]} / static_cast<double>(softcap), 2.0);
  }
  return gradients;
}

TEST(EmulatedCrossEntropy, LogitsAreFormedAndTheirGradientHasTheSlope) {
  for (const LogitRows& shape : kShapes) {
    for (const kernels::LogitForm& form : {kernels::LogitForm{0.3F, 0.0F}, {0.7F, 4.0F}}) {
      const Labels labels = some_labels(shape);
      const Floats raw = random_values(shape.rows * shape.width, 7, 5.0F);
      const Floats logits = formed(form, raw);
      Floats got = raw;
      table().form_logits(kHere, shape, form, got.data());
      EXPECT_LT(distance(kernels::to_double(logits), got.data()), 1e-6);
      if (form.softcap == 0.0F) continue;
      const Result expected = expected_of(shape, logits.data(), labels, 0.5, 2.5);
      double sum = 2.5;
      table().cross_entropy(kHere, shape, got.data(), labels.data(), {0.5, form.softcap}, &sum);
      EXPECT_NEAR(sum, expected.sum, 1e-6 * static_cast<double>(shape.rows)) << shape.width;
      EXPECT_LT(distance(times_slopes(expected.gradients, form.softcap, logits), got.data()), 2e-6);
    }
  }
}

TEST(EmulatedCrossEntropy, TheOrderOfThreadsChangesNothing) {
  for (const LogitRows& shape : {LogitRows{27, 33}, LogitRows{3, 2051}, LogitRows{4, 16501}}) {
    const Labels labels = some_labels(shape);
    const Floats before = random_values(shape.rows * shape.width, 8, 5.0F);
    in_every_order([&] { return bits_of(run_of(shape, before, 0, labels, 0.25)); });
  }
}

TEST(EmulatedCrossEntropy, EveryBarrierIsNeeded) {
  const LogitRows shape{40, 300};  // more rows than blocks
  const Labels labels(40, 5);
  const Floats before = random_values(shape.rows * shape.width, 8, 5.0F);
  expect_every_barrier_needed([&] { return bits_of(run_of(shape, before, 0, labels, 0.25)); });
  expect_every_barrier_needed([&] {
    Floats logits = before;
    Doubles numbers = poisoned<double>(2 * shape.rows);
    table().exponentials(kHere, shape, 0.0F, logits.data(), numbers.data(),
                         numbers.data() + shape.rows);
    return numbers;
  });
}

// Gradients that a product reads, and what lies behind them.
template <class T>
struct RoundedOutcome {
  std::vector<T> gradients;
  Floats logits;
  double sum = 0.0;
};
template <class T>
RoundedOutcome<T> rounded_of(const LogitRows& shape, const Outcome& before, std::size_t logits_off,
                             std::size_t off, const kernels::LogitGradient& gradient) {
  const Labels labels = some_labels(shape);
  RoundedOutcome<T> run{poisoned<T>(shape.rows * shape.width + static_cast<std::int64_t>(off) + 8),
                        before.logits, before.sum};
  elements_of<T>(table().fused)
      .rounded_cross_entropy(
          kHere, shape, {run.logits.data() + logits_off, labels.data(), run.gradients.data() + off},
          gradient, &run.sum);
  return run;
}

template <class T>
class EmulatedRoundedCrossEntropy : public testing::Test {};
using NarrowTypes = testing::Types<core::Bf16, core::F16>;
TYPED_TEST_SUITE(EmulatedRoundedCrossEntropy, NarrowTypes);

// Wherever both arrays begin. Logits are only read.
TYPED_TEST(EmulatedRoundedCrossEntropy, HasTheGradientsOfTheOtherRoundedOnce) {
  for (const LogitRows& shape : kShapes) {
    for (const std::size_t at : {0U, 1U, 4U, 8U, 13U}) {
      const std::size_t off = at == 0 ? 0 : at - 1;  // not as far as the logits
      const kernels::LogitGradient gradient{1.0 / 3.0, at == 1 ? 9.0F : 0.0F};
      const Labels labels = some_labels(shape);
      const auto extra = static_cast<std::int64_t>(at);
      const Outcome before{random_values(shape.rows * shape.width + extra, 7, 5.0F), 2.5};
      Outcome wide = before;
      table().cross_entropy(kHere, shape, wide.logits.data() + at, labels.data(), gradient,
                            &wide.sum);
      auto expected =
          poisoned<TypeParam>(shape.rows * shape.width + static_cast<std::int64_t>(off) + 8);
      for (std::size_t i = at; i < wide.logits.size(); ++i) {
        expected[off + i - at] = core::to_element<TypeParam>(wide.logits[i]);
      }
      const auto run = rounded_of<TypeParam>(shape, before, at, off, gradient);
      EXPECT_EQ(run.sum, wide.sum) << shape.width;
      EXPECT_EQ(run.logits, before.logits) << shape.width;
      EXPECT_EQ(0, std::memcmp(run.gradients.data(), expected.data(), expected.size() * 2))
          << shape.width << " from " << at;
    }
  }
}

TYPED_TEST(EmulatedRoundedCrossEntropy, EqualsTheFormulaInDouble) {
  for (const LogitRows& shape : kShapes) {
    const Outcome before{random_values(shape.rows * shape.width, 7, 5.0F), 2.5};
    const Result expected = expected_of(shape, before.logits.data(), some_labels(shape), 64.0, 2.5);
    const auto run = rounded_of<TypeParam>(shape, before, 0, 0, {64.0});
    EXPECT_NEAR(run.sum, expected.sum, 1e-6 * static_cast<double>(shape.rows)) << shape.width;
    Floats got(expected.gradients.size());
    for (std::size_t i = 0; i < got.size(); ++i) got[i] = core::to_float(run.gradients[i]);
    EXPECT_LT(distance(expected.gradients, got.data()), 0x1p-8) << shape.width;
  }
}

TYPED_TEST(EmulatedRoundedCrossEntropy, TheOrderOfThreadsChangesNothing) {
  for (const LogitRows& shape : {LogitRows{27, 33}, LogitRows{3, 2051}, LogitRows{4, 16501}}) {
    const Outcome before{random_values(shape.rows * shape.width, 8, 5.0F), 2.5};
    in_every_order([&] {
      auto bits = rounded_of<TypeParam>(shape, before, 0, 0, {0.25}).gradients;
      bits.resize(static_cast<std::size_t>(shape.rows * shape.width));
      return bits;
    });
  }
}

// Rows of odd widths begin at other addresses in other chunks.
TEST(EmulatedCrossEntropy, ChunksChainToTheSameBits) {
  for (const std::int64_t width : {33, 1003, 16401}) {
    const LogitRows shape{7, width};
    const Labels labels = some_labels(shape);
    const Floats before = random_values(shape.rows * width, 8, 3.0F);
    const Outcome whole = run_of(shape, before, 0, labels, 0.25);
    for (const std::int64_t cut : {1, 2, 3, 6}) {
      Floats parts;
      double sum = 2.5;
      for (const std::int64_t first : {std::int64_t{0}, cut}) {
        const std::int64_t rows = first == 0 ? cut : shape.rows - cut;
        Floats part(before.begin() + first * width, before.begin() + (first + rows) * width);
        table().cross_entropy(kHere, {rows, width}, part.data(), labels.data() + first, {0.25},
                              &sum);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      EXPECT_EQ(sum, whole.sum) << width;
      EXPECT_EQ(parts, whole.logits) << width;
    }
  }
}

TEST(EmulatedCrossEntropy, LossesAreAddedInTheOrderOfRows) {
  constexpr std::int64_t kRows = 2500;  // more than are fetched at once
  const Floats logits = random_values(kRows * 2, 9, 4.0F);
  const Labels labels(kRows, 1);
  double expected = 1e9;
  for (std::int64_t r = 0; r < kRows; ++r) {
    double loss = 0.0;
    table().cross_entropy_loss(kHere, {1, 2}, logits.data() + 2 * r, labels.data(), &loss);
    expected += loss;
  }
  double sum = 1e9;
  table().cross_entropy_loss(kHere, {kRows, 2}, logits.data(), labels.data(), &sum);
  EXPECT_EQ(sum, expected);
}

TEST(EmulatedCrossEntropy, IgnoredRowIsExactlyZeroWhateverItHolds) {
  for (const std::int64_t width : {3, 20, 1001}) {
    Floats logits = poisoned<float>(2 * width);
    const Labels labels = {kIgnoredLabel, kIgnoredLabel};
    double sum = 0.5;
    table().cross_entropy(kHere, {2, width}, logits.data(), labels.data(), {1.0}, &sum);
    EXPECT_EQ(sum, 0.5);
    EXPECT_EQ(logits, Floats(logits.size(), 0.0F));
  }
}

// Masked logits fill all that some threads see.
TEST(EmulatedCrossEntropy, MinusInfinityHasNoPart) {
  const LogitRows shape{1, 5000};
  Floats logits(5000, -INFINITY);
  logits[3] = 1.0F;
  logits[4000] = 2.0F;
  const Labels labels = {3};
  const Result expected = expected_of(shape, logits.data(), labels, 1.0, 0.0);
  double sum = 0.0;
  table().cross_entropy(kHere, shape, logits.data(), labels.data(), {1.0}, &sum);
  EXPECT_NEAR(sum, expected.sum, 1e-6);
  EXPECT_LT(distance(expected.gradients, logits.data()), 1e-6);
}

TEST(EmulatedCrossEntropy, HugeLogitsStayFiniteAndWhatIsNoNumberIsSeen) {
  Floats logits = {1e4F, -1e4F, 0.0F};
  const Labels labels = {1};
  double sum = 0.0;
  table().cross_entropy(kHere, {1, 3}, logits.data(), labels.data(), {1.0}, &sum);
  EXPECT_NEAR(sum, 2e4, 1e-2);
  EXPECT_EQ(logits, (Floats{1.0F, -1.0F, 0.0F}));
  for (const float value : {NAN, INFINITY}) {
    for (const std::size_t at : {0U, 1U, 2999U}) {
      Floats poisoned_row = random_values(3000, 4);
      poisoned_row[at] = value;
      sum = 0.0;
      table().cross_entropy_loss(kHere, {1, 3000}, poisoned_row.data(), labels.data(), &sum);
      EXPECT_FALSE(std::isfinite(sum));
      table().cross_entropy(kHere, {1, 3000}, poisoned_row.data(), labels.data(), {1.0}, &sum);
      EXPECT_FALSE(std::isfinite(sum));
      EXPECT_TRUE(std::isnan(poisoned_row[7]));
    }
  }
  Floats all(100, -INFINITY);
  table().cross_entropy(kHere, {1, 100}, all.data(), labels.data(), {1.0}, &sum);
  EXPECT_TRUE(std::isnan(sum));
}

TEST(EmulatedCrossEntropy, NoRowsAddNothing) {
  double sum = 0.5;
  table().cross_entropy(kHere, {0, 5}, nullptr, nullptr, {1.0}, &sum);
  table().cross_entropy_loss(kHere, {0, 5}, nullptr, nullptr, &sum);
  table().cross_entropy_of_parts(kHere, {0, 5}, nullptr, nullptr, {}, {1.0}, &sum);
  table().exponentials(kHere, {0, 5}, 0.0F, nullptr, nullptr, nullptr);
  table().fused.bf16.rounded_cross_entropy(kHere, {0, 5}, {}, {1.0}, &sum);
  table().label_logits(kHere, {0, 5}, nullptr, nullptr, 0, nullptr);
  EXPECT_EQ(sum, 0.5);
}

// The numbers of touching rows in rows that lie `stride` apart, and back; between them nothing may
// be written.
Floats spread(const LogitRows& apart, const Floats& touching) {
  Floats out = poisoned<float>(apart.rows * apart.stride);
  for (std::int64_t r = 0; r < apart.rows; ++r) {
    std::copy_n(touching.begin() + r * apart.width, apart.width, out.begin() + r * apart.stride);
  }
  return out;
}
template <class T>
std::vector<T> gathered(const LogitRows& apart, const std::vector<T>& from) {
  const std::vector<T> untouched = poisoned<T>(apart.stride - apart.width);
  std::vector<T> out;
  for (std::int64_t r = 0; r < apart.rows; ++r) {
    const auto row = from.begin() + r * apart.stride;
    out.insert(out.end(), row, row + apart.width);
    EXPECT_EQ(0,
              std::memcmp(&*(row + apart.width), untouched.data(), untouched.size() * sizeof(T)));
  }
  return out;
}

constexpr LogitRows kApart[] = {{5, 7, 64},        {30, 33, 64},      {3, 63, 64}, {3, 1000, 1024},
                                {2, 16383, 16384}, {3, 17001, 17024}, {4, 50, 53}};

// Every entry: its numbers are those of rows that touch.
TEST(EmulatedCrossEntropy, WhatLiesBetweenRowsIsNeitherReadNorWritten) {
  for (const LogitRows& apart : kApart) {
    const LogitRows touching{apart.rows, apart.width};
    const Labels labels = some_labels(touching);
    const Floats before = random_values(touching.rows * touching.width, 7, 5.0F);
    const kernels::LogitForm form{0.7F, 4.0F};
    Floats expected = before;
    Floats got = spread(apart, before);
    double loss[] = {2.5, 2.5, 2.5, 2.5, 2.5};
    table().form_logits(kHere, touching, form, expected.data());
    table().form_logits(kHere, apart, form, got.data());
    EXPECT_EQ(gathered(apart, got), expected) << apart.width;
    table().cross_entropy_loss(kHere, apart, got.data(), labels.data(), &loss[0]);
    table().cross_entropy_loss(kHere, touching, expected.data(), labels.data(), &loss[1]);
    const kernels::LogitGradient gradient{0.5, form.softcap};
    auto rounded = poisoned<core::Bf16>(apart.rows * apart.stride);
    table().fused.bf16.rounded_cross_entropy(
        kHere, apart, {got.data(), labels.data(), rounded.data()}, gradient, &loss[2]);
    table().cross_entropy(kHere, apart, got.data(), labels.data(), gradient, &loss[3]);
    table().cross_entropy(kHere, touching, expected.data(), labels.data(), gradient, &loss[4]);
    for (const double each : loss) EXPECT_EQ(each, loss[0]) << apart.width;
    EXPECT_EQ(gathered(apart, got), expected) << apart.width;
    const auto of_apart = gathered(apart, rounded);
    for (std::size_t i = 0; i < of_apart.size(); ++i) {
      ASSERT_EQ(of_apart[i].bits, core::to_bf16(expected[i]).bits) << apart.width;
    }
  }
}

// The same of what ranks exchange.
TEST(EmulatedCrossEntropy, PartsOfRanksMayLieApart) {
  for (const LogitRows& apart : kApart) {
    const LogitRows touching{apart.rows, apart.width};
    const Labels labels = some_labels(touching);
    Floats expected = random_values(touching.rows * touching.width, 7, 5.0F);
    Floats got = spread(apart, expected);
    Doubles numbers[] = {poisoned<double>(3 * apart.rows), poisoned<double>(3 * apart.rows)};
    Floats* const logits[] = {&expected, &got};
    const LogitRows shapes[] = {touching, apart};
    double sums[] = {2.5, 2.5};
    for (const int i : {0, 1}) {
      double* const mine = numbers[i].data();
      float* const rows = logits[i]->data();
      table().label_logits(kHere, shapes[i], rows, labels.data(), 0, mine + 2 * apart.rows);
      table().exponentials(kHere, shapes[i], 6.0F, rows, mine, mine + apart.rows);
      table().cross_entropy_of_parts(kHere, shapes[i], rows, labels.data(), {0, 0, 1, mine},
                                     {0.25, 6.0F}, &sums[i]);
    }
    EXPECT_EQ(numbers[0], numbers[1]);
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(gathered(apart, got), expected) << apart.width;
  }
}

// Ranks have columns [first, first + width) of the vocabulary.
struct Parts {
  std::vector<Floats> logits;
  Doubles numbers;  // [ranks, 3, rows]
};
Parts parts_of(LogitRows shape, const std::vector<std::int64_t>& firsts, const Floats& whole,
               const Labels& labels, float softcap = 0.0F) {
  Parts parts;
  for (std::size_t rank = 0; rank + 1 < firsts.size(); ++rank) {
    const LogitRows part{shape.rows, firsts[rank + 1] - firsts[rank]};
    Floats logits;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const auto row = whole.begin() + r * shape.width;
      logits.insert(logits.end(), row + firsts[rank], row + firsts[rank + 1]);
    }
    Doubles numbers = poisoned<double>(3 * shape.rows);
    table().label_logits(kHere, part, logits.data(), labels.data(), firsts[rank],
                         numbers.data() + 2 * shape.rows);
    table().exponentials(kHere, part, softcap, logits.data(), numbers.data(),
                         numbers.data() + shape.rows);
    parts.logits.push_back(logits);
    parts.numbers.insert(parts.numbers.end(), numbers.begin(), numbers.end());
  }
  return parts;
}

template <class T>
void expect_rounded_parts(const LogitRows& part, const Floats& exponentials,
                          const Floats& gradients, const Labels& labels,
                          const kernels::VocabParts& parts, float softcap) {
  Floats logits = exponentials;
  auto got = poisoned<T>(part.rows * part.width);
  double sum = 2.5;
  elements_of<T>(table().fused)
      .rounded_cross_entropy(kHere, part, {logits.data(), labels.data(), got.data(), parts},
                             {0.25, softcap}, &sum);
  EXPECT_EQ(logits, exponentials);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].bits, core::to_element<T>(gradients[i]).bits) << i;
  }
}

void expect_parts_make_the_whole(float softcap) {
  const LogitRows shape{30, 1237};
  const std::vector<std::int64_t> firsts = {0, 400, 403, shape.width};
  const Labels labels = some_labels(shape);
  const Floats whole = random_values(shape.rows * shape.width, 5, 5.0F);
  Result expected = expected_of(shape, whole.data(), labels, 0.25, 2.5);
  if (softcap > 0.0F) {
    expected.gradients = times_slopes(expected.gradients, softcap, whole);
  }
  Parts parts = parts_of(shape, firsts, whole, labels, softcap);
  for (std::size_t rank = 0; rank < parts.logits.size(); ++rank) {
    const std::int64_t first = firsts[rank];
    const LogitRows part{shape.rows, firsts[rank + 1] - first};
    const Floats before = parts.logits[rank];
    const kernels::VocabParts of_rank{first, static_cast<int>(rank), 3, parts.numbers.data()};
    double sum = 2.5;
    table().cross_entropy_of_parts(kHere, part, parts.logits[rank].data(), labels.data(), of_rank,
                                   {0.25, softcap}, &sum);
    expect_rounded_parts<core::Bf16>(part, before, parts.logits[rank], labels, of_rank, softcap);
    expect_rounded_parts<core::F16>(part, before, parts.logits[rank], labels, of_rank, softcap);
    EXPECT_NEAR(sum, expected.sum, 3e-5);
    Doubles gradients;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const auto row = expected.gradients.begin() + r * shape.width + first;
      gradients.insert(gradients.end(), row, row + part.width);
    }
    EXPECT_LT(distance(gradients, parts.logits[rank].data()), 1e-6) << rank;
  }
}
TEST(EmulatedCrossEntropy, PartsOfRanksMakeTheWhole) {
  expect_parts_make_the_whole(0.0F);
  expect_parts_make_the_whole(20.0F);
}

TEST(EmulatedCrossEntropy, ExponentialsAndLabelsEqualTheFormulaInDouble) {
  for (const LogitRows& shape : kShapes) {
    const Floats before = random_values(shape.rows * shape.width, 7, 5.0F);
    Floats logits = before;
    Doubles max = poisoned<double>(shape.rows);
    Doubles sum = max;
    Doubles numbers = max;
    const std::int64_t first = 40;
    Labels labels = some_labels(shape);
    for (std::int32_t& label : labels) {
      if (label != kIgnoredLabel) label += 40;
    }
    labels[0] = 39;  // of another rank
    table().label_logits(kHere, shape, logits.data(), labels.data(), first, numbers.data());
    table().exponentials(kHere, shape, 0.0F, logits.data(), max.data(), sum.data());
    Doubles expected;
    for (std::size_t r = 0; r < max.size(); ++r) {
      const float* const row = before.data() + static_cast<std::int64_t>(r) * shape.width;
      EXPECT_EQ(max[r], double{*std::max_element(row, row + shape.width)});
      double total = 0.0;
      for (std::int64_t i = 0; i < shape.width; ++i) {
        expected.push_back(std::exp(double{row[i]} - max[r]));
        total += expected.back();
      }
      EXPECT_LT(std::abs(sum[r] / total - 1.0), 1e-6);
      const bool here = r > 0 && labels[r] != kIgnoredLabel;
      EXPECT_EQ(numbers[r], here ? double{row[labels[r] - 40]} : 0.0);
    }
    EXPECT_LT(distance(expected, logits.data()), 1e-6);
  }
}

TEST(EmulatedCrossEntropy, AdditionOfLossesNeedsItsBarriers) {
  constexpr std::int64_t kRows = 2100;  // more than are fetched at once
  const Floats whole = random_values(kRows * 2, 5, 5.0F);
  const Labels labels(kRows, 1);
  const Parts parts = parts_of({kRows, 2}, {0, 2}, whole, labels);
  expect_every_barrier_needed([&] {
    Floats logits = parts.logits[0];
    Doubles sum = {0.0};
    table().cross_entropy_of_parts(kHere, {kRows, 2}, logits.data(), labels.data(),
                                   {0, 0, 1, parts.numbers.data()}, {1.0}, sum.data());
    return sum;
  });
}

}  // namespace
}  // namespace fm::emulated
