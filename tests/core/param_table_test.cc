#include "core/param_table.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/check.h"

namespace fm::core {
namespace {

std::vector<ParamEntry> block_like() {
  return {{.name = "norm", .shape = {96}, .kind = ParamKind::kNorm},
          {.name = "up", .shape = {5, 7}, .kind = ParamKind::kMatrix},
          {.name = "up.bias", .shape = {3}, .kind = ParamKind::kBias},
          {.name = "embed", .shape = {4, 4}, .kind = ParamKind::kEmbedding},
          {.name = "down", .shape = {17}, .kind = ParamKind::kMatrix}};
}

std::vector<std::string> names(const ParamTable& table) {
  std::vector<std::string> out;
  for (const ParamEntry& entry : table.entries()) out.push_back(entry.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(ParamTable, DecaysEverythingByDefaultInTheOrderGiven) {
  const ParamTable table(block_like(), {});
  EXPECT_EQ(names(table), (Names{"norm", "up", "up.bias", "embed", "down"}));
  EXPECT_EQ(table.decayed(), table.elements());
}

TEST(ParamTable, OffsetsAreMultiplesOfSixteenWithGapsBetween) {
  const ParamTable table(block_like(), {});
  // 96 | 35 -> 48 | 3 -> 16 | 16 | 17 -> 32
  const std::int64_t offsets[] = {0, 96, 144, 160, 176};
  const std::int64_t numels[] = {96, 35, 3, 16, 17};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(table.at(i).offset, Elements(offsets[i]));
    EXPECT_EQ(table.at(i).numel, Elements(numels[i]));
  }
  EXPECT_EQ(table.elements(), Elements(208));
  EXPECT_EQ(table.parameters(), Elements(96 + 35 + 3 + 16 + 17));
}

TEST(ParamTable, ExemptKindsStandBehindTheDecayedRange) {
  const ParamTable table(block_like(), {.norm = true, .bias = true});
  EXPECT_EQ(names(table), (Names{"up", "embed", "down", "norm", "up.bias"}));
  EXPECT_EQ(table.decayed(), Elements(48 + 16 + 32));
  EXPECT_EQ(table.at(3).offset, table.decayed());
  EXPECT_EQ(table.elements(), Elements(208));
}

TEST(ParamTable, EachKindIsExemptByItsOwnName) {
  EXPECT_EQ(names(ParamTable(block_like(), {.norm = true})).back(), "norm");
  EXPECT_EQ(names(ParamTable(block_like(), {.bias = true})).back(), "up.bias");
  EXPECT_EQ(names(ParamTable(block_like(), {.embedding = true})).back(), "embed");
  const ParamTable nothing_decays(
      std::vector<ParamEntry>{{.name = "n", .shape = {8}, .kind = ParamKind::kNorm}},
      {.norm = true});
  EXPECT_EQ(nothing_decays.decayed(), Elements(0));
  EXPECT_EQ(nothing_decays.elements(), Elements(16));
}

TEST(ParamTable, FindsTheEntryThatCoversAnOffset) {
  const ParamTable table(block_like(), {});
  EXPECT_EQ(table.find_at(Elements(0))->name, "norm");
  EXPECT_EQ(table.find_at(Elements(95))->name, "norm");
  EXPECT_EQ(table.find_at(Elements(96))->name, "up");
  EXPECT_EQ(table.find_at(Elements(130))->name, "up");
  EXPECT_EQ(table.find_at(Elements(131)), nullptr);  // the gap behind 35 elements
  EXPECT_EQ(table.find_at(Elements(193)), nullptr);
  EXPECT_EQ(table.find_at(Elements(208)), nullptr);
}

TEST(EvenPart, TheFirstRanksHaveWhatIsLeft) {
  const std::int64_t firsts[] = {0, 3, 6, 8};
  const std::int64_t counts[] = {3, 3, 2, 2};
  for (int rank = 0; rank < 4; ++rank) {
    const IndexRange part = even_part(10, {.index = rank, .count = 4});
    EXPECT_EQ(part.first, firsts[rank]);
    EXPECT_EQ(part.count, counts[rank]);
  }
}

// Rank 1 of 2: whole tensors are the first rank's to write and to count; of a stacked matrix the
// second range is.
TEST(ParamTable, RepeatsAreWhatAnotherRankIsTheFirstHolderOf) {
  const std::vector<ParamEntry> entries = {
      {.name = "whole", .shape = {5}},
      {.name = "rows",
       .shape = {8, 3},
       .split_dim = 0,
       .parts = {{.first = 4, .count = 2}, {.first = 7, .count = 1, .holder = {1, 2}}}},
      {.name = "columns",
       .shape = {2, 6},
       .split_dim = 1,
       .parts = {{.first = 0, .count = 1, .holder = {1, 2}}, {.first = 3, .count = 2}}}};
  const ParamTable table(entries, {}, {.index = 1, .count = 2});
  EXPECT_EQ(table.at(1).numel, Elements(9));
  EXPECT_EQ(table.at(2).numel, Elements(6));
  EXPECT_EQ(table.parameters(), Elements(5 + 24 + 12));  // of all ranks
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const FlatRange& at : table.repeats())
    found.emplace_back(at.first.count(), at.count.count());
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
      {0, 5}, {16 + 6, 3}, {32, 1}, {32 + 3, 1}};
  EXPECT_EQ(found, expected);
}

TEST(ParamTable, AParameterWithoutElementsIsADefect) {
  EXPECT_THROW(ParamTable(std::vector<ParamEntry>{{.name = "n", .shape = {4, 0}}}, {}), BugError);
}

}  // namespace
}  // namespace fm::core
