#include "kernels/attention/partial_softmax.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

constexpr PartialShape kShape{.queries = 3, .heads = 2, .head_dim = 4};
constexpr std::int64_t kRows = kShape.queries * kShape.heads;

// Attention of every query and head over so many keys of its own, in fp64: scores before their
// scaling, and values.
struct Keys {
  std::int64_t count = 0;
  Doubles scores, values;  // [kRows, count], [kRows, count, d]
};
Keys random_keys(std::int64_t count, std::uint32_t seed) {
  return {count, to_double(random_values(kRows * count, seed, 4.0F)),
          to_double(random_values(kRows * count * kShape.head_dim, seed + 1))};
}

// Row r is query r / heads, head r % heads; out [queries, heads, d], logsumexp [heads, queries].
struct Result {
  Floats out = Floats(kRows * kShape.head_dim);
  Floats logsumexp = Floats(kRows);
  PartialSoftmax view() { return {out.data(), logsumexp.data()}; }
};
Result attend(const std::vector<Keys>& all, const PartialShape& shape = kShape) {
  const double scale = scale_of(shape);
  Result result;
  for (std::int64_t row = 0; row < kRows; ++row) {
    double total = 0.0;
    Doubles sums(kShape.head_dim);
    for (const Keys& keys : all) {
      for (std::int64_t key = 0; key < keys.count; ++key) {
        const auto at = static_cast<std::size_t>(row * keys.count + key);
        const double weight = std::exp(keys.scores[at] * scale);
        total += weight;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i] += weight * keys.values[at * sums.size() + i];
        }
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      result.out[static_cast<std::size_t>(row) * sums.size() + i] =
          static_cast<float>(sums[i] / total);
    }
    const std::int64_t place = row % kShape.heads * kShape.queries + row / kShape.heads;
    result.logsumexp[static_cast<std::size_t>(place)] = static_cast<float>(std::log(total) / scale);
  }
  return result;
}

TEST(PartialSoftmax, TwoPartsAreTheWhole) {
  const Keys first = random_keys(5, 1);
  const Keys second = random_keys(2, 3);
  const Result expected = attend({first, second});
  for (const int threads : {1, 3}) {
    Result all = attend({first});
    Result now = attend({second});
    merge_partial_softmax({.arena = {}, .threads = threads}, kShape, now.view(), all.view());
    EXPECT_LT(difference(to_double(expected.out), all.out), 1e-5);
    EXPECT_LT(difference(to_double(expected.logsumexp), all.logsumexp), 1e-5);
  }
}

TEST(PartialSoftmax, ScoresMayHaveAnotherScale) {
  PartialShape shape = kShape;
  shape.scale = 0.125F;
  const Keys first = random_keys(5, 1);
  const Keys second = random_keys(2, 3);
  const Result expected = attend({first, second}, shape);
  Result all = attend({first}, shape);
  Result now = attend({second}, shape);
  merge_partial_softmax({}, shape, now.view(), all.view());
  EXPECT_LT(difference(to_double(expected.out), all.out), 1e-5);
  EXPECT_LT(difference(to_double(expected.logsumexp), all.logsumexp), 1e-5);
}

TEST(PartialSoftmax, WhatSawNoKeyChangesNothing) {
  Result all = attend({random_keys(3, 1)});
  const Result before = all;
  Result now = attend({random_keys(3, 2)});
  now.logsumexp.assign(now.logsumexp.size(), -std::numeric_limits<float>::infinity());
  merge_partial_softmax({}, kShape, now.view(), all.view());
  EXPECT_EQ(all.out, before.out);
  EXPECT_EQ(all.logsumexp, before.logsumexp);
}

}  // namespace
}  // namespace fm::kernels
