#include "kernels/pointwise/sums.h"

#include <gtest/gtest.h>

#include <memory>

#include "core/check.h"
#include "core/tree.h"
#include "kernels/variants/variant.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

TEST(SquaredNorm, AddsBlocksOf1024AndTheRest) {
  Floats ones(2500, 2.0F);
  Doubles blocks(static_cast<std::size_t>(norm_blocks(2500)));
  squared_norm(core::Work(), ones, blocks);
  EXPECT_EQ(blocks, (Doubles{4096.0, 4096.0, 4.0 * 452.0}));
}

TEST(SquaredNorm, UsesSixteenLanesAndATree) {
  const Floats values = random_values(1024 + 37, 3, 10.0F);
  Doubles expected;
  for (std::size_t from = 0; from < values.size(); from += 1024) {
    Doubles lanes(16, 0.0);
    for (std::size_t i = from; i < std::min(values.size(), from + 1024); ++i) {
      lanes[i % 16] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    while (lanes.size() > 1) {  // neighbours, level by level
      Doubles next;
      for (std::size_t i = 0; i < lanes.size(); i += 2) next.push_back(lanes[i] + lanes[i + 1]);
      lanes = next;
    }
    expected.push_back(lanes[0]);
  }
  Doubles blocks(2);
  squared_norm(core::Work(), values, blocks);
  EXPECT_EQ(blocks, expected);
}

TEST(SquaredNorm, PaddingWithZerosChangesNoBit) {
  Floats values = random_values(777, 4);
  Doubles bare(1);
  Doubles padded(1);
  squared_norm(core::Work(), values, bare);
  values.resize(1024, 0.0F);
  squared_norm(core::Work(), values, padded);
  EXPECT_EQ(bare, padded);
}

TEST(TreeAdd, EqualsTheTreeOfCoreForAnyNumberOfRows) {
  for (std::size_t rows = 1; rows <= 33; ++rows) {
    std::vector<Floats> data;
    std::vector<const float*> pointers;
    for (std::size_t r = 0; r < rows; ++r) {
      data.push_back(random_values(600, static_cast<std::uint32_t>(r), 1e3F));
    }
    for (const Floats& row : data) pointers.push_back(row.data());
    Floats expected;
    for (std::size_t i = 0; i < 600; ++i) {
      Floats column;
      for (const Floats& row : data) column.push_back(row[i]);
      expected.push_back(core::tree_sum(std::span<float>(column)));
    }
    for (const auto& [variant, runs_here] : candidates()) {
      if (!runs_here()) continue;
      Floats apart(600);
      variant->tree_add(pointers, 600, apart.data());
      ASSERT_EQ(apart, expected) << rows << " rows, " << variant->name;
    }
    tree_add(core::Work(), pointers, 600, data[rows / 2].data());  // out may be a row
    ASSERT_EQ(data[rows / 2], expected) << rows << " rows";
  }
}

TEST(TreeAdd, ToBothRowsIsTheSumOfTwoRows) {
  for (const std::int64_t count : {0, 1, 63, 64, 600, 5000}) {
    Floats a = random_values(count, 1, 1e3F);
    Floats b = random_values(count, 2, 1e3F);
    Floats sum(a.size());
    const std::vector<const float*> rows = {a.data(), b.data()};
    tree_add(core::Work(), rows, count, sum.data());
    tree_add_to_both(core::Work(), count, a.data(), b.data());
    EXPECT_EQ(a, sum) << count;
    EXPECT_EQ(b, sum) << count;
  }
}

// Sums beyond the caches are stored past them, where the output is aligned.
TEST(TreeAdd, LongSumsOfTwoRowsAreTheirElementsWhereverTheyLie) {
  constexpr std::int64_t kCount = (std::int64_t{2} << 20) + 21;
  constexpr float kUntouched = -3.0F;
  const Floats a = random_values(kCount, 1, 1e3F);
  const Floats b = random_values(kCount, 2, 1e3F);
  const std::vector<const float*> rows = {a.data(), b.data()};
  for (const auto& [variant, runs_here] : candidates()) {
    if (!runs_here()) continue;
    for (const std::int64_t shift : {0, 3}) {
      Floats around(kCount + 64, kUntouched);
      void* start = around.data() + 1;
      std::size_t space = (kCount + 63) * sizeof(float);
      float* const out =
          static_cast<float*>(std::align(64, kCount * sizeof(float), start, space)) + shift;
      variant->tree_add(rows, kCount, out);
      for (std::int64_t i = 0; i < kCount; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(out[i], a[at] + b[at]) << variant->name << ", " << shift << ", element " << i;
      }
      EXPECT_EQ(out[-1], kUntouched) << variant->name << ", " << shift;
      EXPECT_EQ(out[kCount], kUntouched) << variant->name << ", " << shift;
    }
  }
}

TEST(TreeAdd, RefusesNoRows) {
  Floats out(1);
  EXPECT_THROW(tree_add(core::Work(), {}, 1, out.data()), core::BugError);
}

TEST(Add, AddsInPlace) {
  Floats into = {1, 2, 3};
  const Floats from = {10, 20, 30};
  add(core::Work(), 2, from.data(), into.data());
  EXPECT_EQ(into, (Floats{11, 22, 3}));
}

TEST(AddSquares, IsTheSumAndTheSquaredNormOfIt) {
  for (const std::int64_t count : {0, 1, 15, 1023, 1024, 1025, 5000}) {
    const Floats from = random_values(count, 1, 1e3F);
    Floats expected = random_values(count, 2, 1e3F);
    Floats into = expected;
    add(core::Work(), count, from.data(), expected.data());
    Doubles squares(static_cast<std::size_t>(norm_blocks(count)));
    squared_norm(core::Work(), expected, squares);
    Doubles blocks(squares.size());
    add_squares(core::Work(), count, from.data(), into.data(), blocks);
    EXPECT_EQ(into, expected) << count;
    EXPECT_EQ(blocks, squares) << count;
  }
}

bool reaches(std::span<const float> values, float limit) {
  std::int32_t found = 7;
  any_reaches(core::Work(), values, limit, &found);
  EXPECT_EQ(found, found == 0 ? 0 : 1);
  return found != 0;
}

TEST(AnyReaches, CountsMagnitudesAndNan) {
  std::vector<float> values(9000, -1.0F);
  EXPECT_FALSE(reaches(values, 1.5F));
  EXPECT_TRUE(reaches(values, 1.0F));
  for (const float bad : {1.5F, -1.5F, -INFINITY, NAN}) {
    for (const std::size_t at : {0U, 4095U, 4096U, 8999U}) {
      values[at] = bad;
      EXPECT_TRUE(reaches(values, 1.5F)) << bad << " at " << at;
      values[at] = std::nextafter(1.5F, 0.0F);
      EXPECT_FALSE(reaches(values, 1.5F)) << at;
    }
  }
  EXPECT_FALSE(reaches({}, 1.0F));
  EXPECT_FALSE(reaches(values, INFINITY));
}

}  // namespace
}  // namespace fm::kernels
