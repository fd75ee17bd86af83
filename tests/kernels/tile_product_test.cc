// Small products against scalar chains of std::fma: the same bits, and nothing else is written.
#include "kernels/attention/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

struct Case {
  GemmShape shape;
  Strided a;  // data is filled in
  Band band = {};
};

// The terms of element (i, j), empty when the element is left out.
struct Terms {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Terms terms_of(const Case& c, std::int64_t i, std::int64_t j) {
  const std::int64_t first = i / 8 * 8;  // bands go by eight rows
  const std::int64_t seen = c.band.ahead + first + 8;
  switch (c.band.region) {
    case Band::Region::kAll: break;
    case Band::Region::kSeenColumns: return {0, j / 16 * 16 < seen ? c.shape.k : 0};
    case Band::Region::kSeenDepth: return {0, std::min(c.shape.k, seen)};
    case Band::Region::kSeeingDepth:
      return {std::max(first - c.band.ahead, std::int64_t{0}), c.shape.k};
  }
  return {0, c.shape.k};
}

void expect_chains(const Case& c, Beta beta) {
  const auto [m, n, k] = c.shape;
  const Floats a = random_values(m * c.a.row + k * c.a.column, 1);
  const Floats b = random_values(k * (n + 3), 2);
  const Floats before = random_values(m * (n + 5), 3);
  Floats got = before;
  tile_product(c.shape, {a.data(), c.a.row, c.a.column}, {b.data(), n + 3},
               {got.data(), n + 5, beta}, c.band);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n + 5; ++j) {
      const auto at = static_cast<std::size_t>(i * (n + 5) + j);
      const Terms terms = terms_of(c, i, j);
      float expected = before[at];
      if (j < n && terms.end > 0) {
        if (beta == Beta::kZero) expected = 0.0F;
        for (std::int64_t t = terms.begin; t < terms.end; ++t) {
          expected = std::fma(a[static_cast<std::size_t>(i * c.a.row + t * c.a.column)],
                              b[static_cast<std::size_t>(t * (n + 3) + j)], expected);
        }
      }
      ASSERT_EQ(got[at], expected) << "row " << i << " column " << j << " of " << m << " x " << n;
    }
  }
}

TEST(TileProduct, EveryElementIsOneChain) {
  for (const Beta beta : {Beta::kZero, Beta::kOne}) {
    for (const std::int64_t n : {16, 32, 48, 64, 80, 144}) {
      expect_chains({{8, n, 1}, {nullptr, 1, 1}}, beta);
      expect_chains({{24, n, 37}, {nullptr, 40, 1}}, beta);
      expect_chains({{40, n, 37}, {nullptr, 1, 43}}, beta);
    }
  }
}

TEST(TileProduct, BandsLeaveOutWhatIsNotSeen) {
  for (const Beta beta : {Beta::kZero, Beta::kOne}) {
    for (const std::int64_t ahead : {0, 8, 16, 72, 200}) {
      expect_chains({{64, 128, 20}, {nullptr, 20, 1}, {Band::Region::kSeenColumns, ahead}}, beta);
      expect_chains({{64, 80, 128}, {nullptr, 128, 1}, {Band::Region::kSeenDepth, ahead}}, beta);
      expect_chains({{128, 32, 64}, {nullptr, 1, 128}, {Band::Region::kSeeingDepth, ahead}}, beta);
    }
  }
}

}  // namespace
}  // namespace fm::kernels
