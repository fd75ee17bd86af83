#include "core/param_table.h"

#include <gtest/gtest.h>

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

TEST(ParamTable, AParameterWithoutElementsIsADefect) {
  EXPECT_THROW(ParamTable(std::vector<ParamEntry>{{.name = "n", .shape = {4, 0}}}, {}), BugError);
}

}  // namespace
}  // namespace fm::core
