#include "kernels/pointwise/rope.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <vector>

#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

constexpr std::int64_t kHeadDim = 10;
constexpr std::int64_t kHeads = 3;
constexpr core::BatchShape kShape{.batch = 2, .seq_len = 7};
const Floats kInvFreq = {1.0F, 0.5F, 0.1F, 0.03F, 0.001F};

struct Tables {
  Floats cos = Floats(35);
  Floats sin = Floats(35);
  Tables() { rope_table(core::Work(), kInvFreq, kShape.seq_len, cos.data(), sin.data()); }
  RopeTable view() const { return {cos.data(), sin.data(), kHeadDim / 2, kHeadDim}; }
};

TEST(Rope, TurnsPairsOfHalvesAsComplexNumbers) {
  const std::int64_t count = kShape.tokens() * kHeads * kHeadDim;
  const Floats x = random_values(count, 5);
  Doubles expected(x.size());
  for (std::size_t head = 0; head < x.size() / kHeadDim; ++head) {
    const auto position = static_cast<double>(head / kHeads % kShape.seq_len);
    for (std::size_t i = 0; i < kHeadDim / 2; ++i) {
      const std::size_t at = head * kHeadDim + i;
      const auto turned = std::complex<double>(x[at], x[at + kHeadDim / 2]) *
                          std::polar(1.0, position * static_cast<double>(kInvFreq[i]));
      expected[at] = turned.real();
      expected[at + kHeadDim / 2] = turned.imag();
    }
  }
  const Tables tables;
  Floats turned = x;
  rope(core::Work(), tables.view(), kShape, kHeads, turned.data());
  EXPECT_LT(difference(expected, turned), 2e-7);
}

// Ten elements turn of each head of 13, the rest stays.
TEST(Rope, TurnsNeighboursInTheFirstPartOfAHead) {
  constexpr std::size_t kWide = 13;
  const Floats x = random_values(kShape.tokens() * kHeads * std::int64_t{kWide}, 7);
  Doubles expected(x.begin(), x.end());
  for (std::size_t head = 0; head < x.size() / kWide; ++head) {
    const auto position = static_cast<double>(head / kHeads % kShape.seq_len);
    for (std::size_t i = 0; i < kHeadDim / 2; ++i) {
      const std::size_t at = head * kWide + 2 * i;
      const auto turned = std::complex<double>(x[at], x[at + 1]) *
                          std::polar(1.0, position * static_cast<double>(kInvFreq[i]));
      expected[at] = turned.real();
      expected[at + 1] = turned.imag();
    }
  }
  const Tables tables;
  RopeTable table = tables.view();
  table.head_dim = kWide;
  table.pairs = RopePairs::kNeighbours;
  Floats turned = x;
  rope(core::Work(), table, kShape, kHeads, turned.data());
  EXPECT_LT(difference(expected, turned), 2e-7);
  rope_inverse(core::Work(), table, kShape, kHeads, turned.data());
  EXPECT_LT(difference(to_double(x), turned), 3e-7);
}

TEST(Rope, EveryDocumentTurnsAsARowOfItsOwn) {
  const std::vector<std::int32_t> starts = {0, 0, 0, 3, 3, 3, 3, 0, 1, 1, 1, 1, 5, 5};
  const Tables tables;
  const Floats x = random_values(kShape.tokens() * kHeads * kHeadDim, 8);
  Floats expected = x;
  std::int64_t first = 0;
  for (const std::int64_t length : {3, 4, 1, 4, 2}) {
    rope(core::Work(), tables.view(), {1, length}, kHeads,
         expected.data() + first * kHeads * kHeadDim);
    first += length;
  }
  RopeTable table = tables.view();
  table.starts = starts.data();
  Floats turned = x;
  rope(core::Work(), table, kShape, kHeads, turned.data());
  EXPECT_EQ(turned, expected);
  rope_inverse(core::Work(), table, kShape, kHeads, turned.data());
  EXPECT_LT(difference(to_double(x), turned), 3e-7);
}

TEST(Rope, InverseUndoes) {
  const Tables tables;
  const Floats x = random_values(kShape.tokens() * kHeads * kHeadDim, 6);
  Floats there_and_back = x;
  rope(core::Work(), tables.view(), kShape, kHeads, there_and_back.data());
  EXPECT_GT(difference(to_double(x), there_and_back), 0.1);
  rope_inverse(core::Work(), tables.view(), kShape, kHeads, there_and_back.data());
  EXPECT_LT(difference(to_double(x), there_and_back), 3e-7);
}

TEST(Rope, AngleIsRoundedToSinglePrecisionBeforeTheCosine) {
  Floats cos(2001);
  Floats sin(2001);
  const Floats third = {1.0F / 3.0F};
  rope_table(core::Work(), third, 2001, cos.data(), sin.data());
  const float angle = (1.0F / 3.0F) * 2000.0F;
  EXPECT_EQ(cos[2000], static_cast<float>(std::cos(static_cast<double>(angle))));
  EXPECT_EQ(sin[2000], static_cast<float>(std::sin(static_cast<double>(angle))));
}

}  // namespace
}  // namespace fm::kernels
