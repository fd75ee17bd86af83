#include "core/tensor_slice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/element.h"

namespace fm::core {
namespace {

TEST(CutSlices, NameTensorsAndLeaveGapsOut) {
  const ParamTable two({{.name = "x", .shape = {3, 5}}, {.name = "y", .shape = {20}}}, {});
  std::vector<float> flat(64);
  const auto slices =
      cut_slices(two, Elements(10), Elements(20), in_memory(flat.data()), Elements(10));
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0].name, "x");
  EXPECT_EQ(slices[0].first.count(), 10);
  EXPECT_EQ(slices[0].count().count(), 5);
  EXPECT_EQ(FetchedRow(slices[0], 0, FetchedRow::Use::kRead).floats().data(), flat.data() + 10);
  EXPECT_EQ(slices[1].name, "y");
  EXPECT_EQ(slices[1].first.count(), 0);
  EXPECT_EQ(slices[1].count().count(), 14);
  EXPECT_EQ(FetchedRow(slices[1], 0, FetchedRow::Use::kRead).floats().data(), flat.data() + 16);
}

TEST(ParamTable, APartOfASplitTensorIsItsShareOfTheElements) {
  const std::vector<ParamEntry> entries = {{.name = "rows", .shape = {4, 6}, .split_dim = 0},
                                           {.name = "columns", .shape = {4, 6}, .split_dim = 1},
                                           {.name = "whole", .shape = {4, 6}}};
  const ParamTable table(entries, {}, {.index = 1, .count = 2});
  EXPECT_EQ(table.at(0).numel, Elements(12));
  EXPECT_EQ(table.at(0).row(), Elements(12));
  EXPECT_EQ(table.at(1).numel, Elements(12));
  EXPECT_EQ(table.at(1).row(), Elements(3));
  EXPECT_EQ(table.at(1).stride(), Elements(6));
  EXPECT_EQ(table.at(2).numel, Elements(24));
  EXPECT_EQ(table.at(2).row(), Elements(24));
}

// Elements [first, first + count) of rank `share`'s flat buffer, whose numbers say where they
// belong in the tensor, by arithmetic on indices.
std::vector<float> part_of(const std::vector<std::int64_t>& shape, int dim, Share share) {
  std::int64_t total = 1;
  for (const std::int64_t size : shape) total *= size;
  std::vector<float> out;
  for (std::int64_t element = 0; element < total; ++element) {
    std::int64_t left = element;
    std::int64_t index = 0;
    for (std::size_t at = shape.size(); at-- > 0; left /= shape[at]) {
      if (static_cast<int>(at) == dim) index = left % shape[at];
    }
    const std::int64_t each = shape[static_cast<std::size_t>(dim)] / share.count;
    if (index / each == share.index) out.push_back(static_cast<float>(element));
  }
  return out;
}

TEST(CutSlices, OfEverySplitHoldEveryElementOnceWhereItBelongs) {
  std::mt19937 random(3);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const int parts = draw(1, 4);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(draw(1, 3)));
    for (std::int64_t& size : shape) size = draw(1, 5);
    const int dim = draw(0, static_cast<int>(shape.size()) - 1);
    shape[static_cast<std::size_t>(dim)] *= parts;
    std::vector<int> seen;
    for (int index = 0; index < parts; ++index) {
      const ParamTable table({{.name = "w", .shape = shape, .split_dim = dim}}, {},
                             {.index = index, .count = parts});
      std::vector<float> mine = part_of(shape, dim, {.index = index, .count = parts});
      ASSERT_EQ(table.at(0).numel.count(), std::ssize(mine));
      seen.resize(mine.size() * static_cast<std::size_t>(parts));
      const int cut = draw(0, static_cast<int>(mine.size()));  // two owners
      for (const auto& [first, last] : {std::pair(0, cut), std::pair(cut, 10'000)}) {
        const auto slices = cut_slices(table, Elements(first), Elements(last - first),
                                       in_memory(mine.data()), Elements(first));
        for (const TensorSlice& slice : slices) {
          EXPECT_EQ(slice.shape, shape);
          for (std::int64_t row = 0; row < slice.rows; ++row) {
            const FetchedRow fetched(slice, row, FetchedRow::Use::kRead);
            std::int64_t element = slice.first_of(row).count();
            for (const float value : fetched.floats()) {
              ASSERT_EQ(value, static_cast<float>(element));
              ++seen[static_cast<std::size_t>(element++)];
            }
          }
        }
      }
    }
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), std::ssize(seen));
    EXPECT_EQ(*std::ranges::max_element(seen), 1);
  }
}

// Columns 1, 4 and 5 of [3, 6]; the last is another rank's to write.
TEST(CutSlices, OfSeveralRangesOfColumnsNameTheirPlacesInTheTensor) {
  const ParamTable table({{.name = "w",
                           .shape = {3, 6},
                           .split_dim = 1,
                           .parts = {{.first = 1, .count = 1},
                                     {.first = 4, .count = 1},
                                     {.first = 5, .count = 1, .holder = {1, 3}}}}},
                         {}, {.index = 1, .count = 3});
  std::vector<float> flat = {1, 4, 5, 7, 10, 11, 13, 16, 17};  // of the tensor 0, 1, 2, ... 17
  for (const Repeats repeats : {Repeats::kCut, Repeats::kLeaveOut}) {
    for (std::int64_t first = 0; first < 9; ++first) {
      for (std::int64_t last = first + 1; last <= 9; ++last) {
        std::vector<int> seen(18);
        for (const TensorSlice& slice :
             cut_slices(table, Elements(first), Elements(last - first), in_memory(flat.data()),
                        Elements(first), repeats)) {
          for (std::int64_t row = 0; row < slice.rows; ++row) {
            std::int64_t element = slice.first_of(row).count();
            const FetchedRow fetched(slice, row, FetchedRow::Use::kRead);
            for (const float value : fetched.floats()) {
              ASSERT_EQ(value, static_cast<float>(element));
              ++seen[static_cast<std::size_t>(element++)];
            }
          }
        }
        for (std::int64_t at = 0; at < 9; ++at) {
          const bool named = at >= first && at < last && (repeats == Repeats::kCut || at % 3 != 2);
          EXPECT_EQ(seen[static_cast<std::size_t>(flat[static_cast<std::size_t>(at)])],
                    named ? 1 : 0);
        }
      }
    }
  }
}

// 1 + 2^-8 lies between two bf16 and goes to the even one, 1; 1 + 3 x 2^-8 to 1 + 2^-6.
TEST(TensorSlice, NarrowNumbersAreFetchedAsFloatsAndRoundedWhenDropped) {
  std::vector<Bf16> stored(8, to_bf16(2.0F));
  const std::shared_ptr<TensorSource> source = in_memory(stored.data(), DType::kBF16);
  float* const left = source->fetch(Elements(1), Elements(2));
  float* const right = source->fetch(Elements(4), Elements(2));
  EXPECT_EQ(left[0], 2.0F);
  left[0] = 1.0F + 0x1p-8F;
  left[1] = 1.0F + 3.0F * 0x1p-8F;
  right[0] = 7.0F;
  source->drop(Elements(1), Elements(2), true);
  source->drop(Elements(4), Elements(2), false);
  EXPECT_EQ(to_float(stored[1]), 1.0F);
  EXPECT_EQ(to_float(stored[2]), 1.0F + 0x1p-6F);
  EXPECT_EQ(to_float(stored[4]), 2.0F);
}

}  // namespace
}  // namespace fm::core
