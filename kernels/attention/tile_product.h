// Small matrix products inside a kernel, for operands that lie padded in the caches, with the
// triangles of causal attention left out.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace fm::kernels {

inline constexpr std::int64_t kTileRows = 8;
inline constexpr std::int64_t kTileColumns = 16;

// Element (i, j) of a matrix is data[i * row + j * column].
struct Strided {
  const float* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 1;
};

// What is left out, for each kTileRows rows from row i on. Query i sees the keys 0 .. ahead + i.
struct Band {
  enum class Region : std::uint8_t {
    kAll,
    kSeenColumns,  // rows are queries, columns keys: columns below ahead + i + 8, rounded up to 16
    kSeenDepth,    // rows are queries, the depth keys: terms below ahead + i + 8
    kSeeingDepth,  // rows are keys, the depth queries: terms from i - ahead on
  };
  Region region = Region::kAll;
  std::int64_t ahead = 0;  // a multiple of kTileRows, 0 or more
};

// C [m, n] = A [m, k] B [k, n] + beta C, m a multiple of kTileRows and n of kTileColumns; B has
// adjacent columns (b.column is 1). Every element is one chain of fused multiply-adds in order of
// k that begins with the old value of C, or zero. Columns left out stay as they are.
void tile_product(const GemmShape& shape, const Strided& a, const Strided& b,
                  const Target<float>& c, const Band& band);

}  // namespace fm::kernels
