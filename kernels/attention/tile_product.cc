#include "kernels/attention/tile_product.h"

#include <algorithm>

#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {
namespace {

// Accumulators in registers: at most 16 of the 32 of AVX-512, 12 of the 16 of AVX2; at least 8
// chains hide the latency of two multiply-add ports, 12 leave the loads time.
constexpr int kMostVectors = kVectorFloats == 8 ? 3 : 4;
constexpr int tile_rows(int vectors) { return vectors <= (kVectorFloats == 16 ? 2 : 1) ? 8 : 4; }

// C [Rows, Vectors * kVectorFloats], `a` and `b` at their first elements.
template <int Rows, int Vectors>
[[gnu::always_inline]] inline void tile(std::int64_t depth, const Strided& a, const Strided& b,
                                        const Target<float>& c) {
  Vector sums[Rows][Vectors] = {};
  if (c.beta == Beta::kOne) {
    for (int i = 0; i < Rows; ++i) {
      for (int v = 0; v < Vectors; ++v)
        sums[i][v] = load(c.data + i * c.stride + v * kVectorFloats);
    }
  }
  const float* a_column = a.data;
  const float* b_row = b.data;
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector row[Vectors];
    for (int v = 0; v < Vectors; ++v) row[v] = load(b_row + v * kVectorFloats);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        sums[i][v] = fused(splat(a_column[i * a.row]), row[v], sums[i][v]);
    }
    a_column += a.column;
    b_row += b.row;
  }
  for (int i = 0; i < Rows; ++i) {
    for (int v = 0; v < Vectors; ++v) store(sums[i][v], c.data + i * c.stride + v * kVectorFloats);
  }
}

// Eight rows and Vectors * kVectorFloats columns.
template <int Vectors>
void strip(std::int64_t depth, const Strided& a, const Strided& b, const Target<float>& c) {
  constexpr int kRows = tile_rows(Vectors);
  for (std::int64_t i = 0; i < kTileRows; i += kRows) {
    tile<kRows, Vectors>(depth, {a.data + i * a.row, a.row, a.column}, b,
                         {c.data + i * c.stride, c.stride, c.beta});
  }
}

using StripFunction = decltype(&strip<1>);
constexpr StripFunction kStrips[] = {strip<1>, strip<2>, strip<3>, strip<4>};

// The terms and columns of the eight rows from `row` on.
struct TileExtent {
  std::int64_t begin, depth, columns;
};

TileExtent extent_of(const GemmShape& shape, const Band& band, std::int64_t row) {
  const std::int64_t seen = band.ahead + row + kTileRows;
  switch (band.region) {
    case Band::Region::kAll: break;
    case Band::Region::kSeenColumns:
      return {0, shape.k, std::min(shape.n, (seen + 15) / kTileColumns * kTileColumns)};
    case Band::Region::kSeenDepth: return {0, std::min(shape.k, seen), shape.n};
    case Band::Region::kSeeingDepth: {
      const std::int64_t begin = std::clamp(row - band.ahead, std::int64_t{0}, shape.k);
      return {begin, shape.k - begin, shape.n};
    }
  }
  return {0, shape.k, shape.n};
}

}  // namespace

// The columns of B that are in use stay in the nearest cache while the rows pass.
void tile_product(const GemmShape& shape, const Strided& a, const Strided& b,
                  const Target<float>& c, const Band& band) {
  std::int64_t panel = 0;
  for (std::int64_t column = 0; column < shape.n; column += panel) {
    panel = panel_vectors((shape.n - column) / kVectorFloats, kMostVectors) * kVectorFloats;
    for (std::int64_t row = 0; row < shape.m; row += kTileRows) {
      const TileExtent at = extent_of(shape, band, row);
      const std::int64_t vectors = std::min(panel, at.columns - column) / kVectorFloats;
      if (vectors <= 0) continue;
      kStrips[vectors - 1](at.depth, {a.data + row * a.row + at.begin * a.column, a.row, a.column},
                           {b.data + at.begin * b.row + column, b.row},
                           {c.data + row * c.stride + column, c.stride, c.beta});
    }
  }
}

}  // namespace fm::kernels::FM_SIMD
