// Products of a warp on tensor cores, of tiles and of what is in its registers.
#pragma once

#include "kernels/cuda/attention_tiles.h"

namespace fm::kernels::cuda {

// sums [16, 8 kTiles] += left right^T: one step of 16 columns of both.
template <class T, int kTiles, int kRows, int kDim>
__device__ __forceinline__ void multiply_step(float (&sums)[kTiles][4],
                                              const std::uint32_t (&left)[4],
                                              const Tile<T, kRows, kDim>& right, int column) {
  const int lane = lane_of_thread();
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    std::uint32_t both[4];
    load_matrices(both, &right.rows[8 * n + lane % 8 + lane / 16 * 8][column + lane / 8 % 2 * 8]);
    const std::uint32_t first[2] = {both[0], both[1]};
    const std::uint32_t second[2] = {both[2], both[3]};
    mma<T>(sums[n], left, first);
    mma<T>(sums[n + 1], left, second);
  }
}

// 16 rows of `tile` from row `first` on, 16 columns of them.
template <class T, int kRows, int kDim>
__device__ __forceinline__ void load_left(std::uint32_t (&to)[4], const Tile<T, kRows, kDim>& tile,
                                          int first, int column) {
  const int lane = lane_of_thread();
  load_matrices(to, &tile.rows[first + lane % 16][column + lane / 16 * 8]);
}

template <int kTiles>
__device__ __forceinline__ void clear_sums(float (&sums)[kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.0F;
  }
}

// sums = (16 rows of left, from `first` on) right^T.
template <class T, int kTiles, int kLeftRows, int kRows, int kDim>
__device__ __forceinline__ void multiply_rows(float (&sums)[kTiles][4],
                                              const Tile<T, kLeftRows, kDim>& left, int first,
                                              const Tile<T, kRows, kDim>& right) {
  static_assert(kRows == 8 * kTiles);
  clear_sums(sums);
#pragma unroll
  for (int column = 0; column < kDim; column += 16) {
    std::uint32_t part[4];
    load_left(part, left, first, column);
    multiply_step<T>(sums, part, right, column);
  }
}
// The same of rows that are in registers.
template <class T, int kTiles, int kSteps, int kRows, int kDim>
__device__ __forceinline__ void multiply_rows(float (&sums)[kTiles][4],
                                              const std::uint32_t (&left)[kSteps][4],
                                              const Tile<T, kRows, kDim>& right) {
  static_assert(kRows == 8 * kTiles && kDim == 16 * kSteps);
  clear_sums(sums);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) multiply_step<T>(sums, left[step], right, 16 * step);
}

// 16 rows of a tile, the left factor of products with all tiles that a block walks over. kHeld:
// they stay in registers; heads too wide for that read them again for every product.
template <int kDim, bool kHeld>
struct LeftRows {
  std::uint32_t parts[kHeld ? kDim / 16 : 1][4];
};
// Once, when the tile is there.
template <class T, int kRows, int kDim, bool kHeld>
__device__ __forceinline__ void hold_left(LeftRows<kDim, kHeld>& left,
                                          const Tile<T, kRows, kDim>& tile, int first) {
  if constexpr (kHeld) {
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) load_left(left.parts[i], tile, first, 16 * i);
  }
}
template <class T, int kTiles, bool kHeld, int kLeftRows, int kRows, int kDim>
__device__ __forceinline__ void multiply_rows(float (&sums)[kTiles][4],
                                              const LeftRows<kDim, kHeld>& left,
                                              const Tile<T, kLeftRows, kDim>& tile, int first,
                                              const Tile<T, kRows, kDim>& right) {
  if constexpr (kHeld) {
    multiply_rows<T>(sums, left.parts, right);
  } else {
    multiply_rows<T>(sums, tile, first, right);
  }
}

// sums [16, 8 kTiles] += left right: left [16, rows of right], the columns of right from `column`
// on.
template <class T, int kTiles, int kSteps, int kRows, int kDim>
__device__ __forceinline__ void multiply_columns(float (&sums)[kTiles][4],
                                                 const std::uint32_t (&left)[kSteps][4],
                                                 const Tile<T, kRows, kDim>& right, int column) {
  static_assert(kRows == 16 * kSteps);
  const int lane = lane_of_thread();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      std::uint32_t both[4];
      load_transposed(both, &right.rows[16 * step + lane % 16][column + 8 * n + lane / 16 * 8]);
      const std::uint32_t first[2] = {both[0], both[1]};
      const std::uint32_t second[2] = {both[2], both[3]};
      mma<T>(sums[n], left[step], first);
      mma<T>(sums[n + 1], left[step], second);
    }
  }
}

// Sums of a product, rounded, as the left factor of the next.
template <class T, int kTiles>
__device__ __forceinline__ void to_left(const float (&sums)[kTiles][4],
                                        std::uint32_t (&left)[kTiles / 2][4]) {
#pragma unroll
  for (int step = 0; step < kTiles / 2; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&from)[4] = sums[2 * step + i / 2];
      left[step][i] = narrowed_pair<T>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
    }
  }
}

}  // namespace fm::kernels::cuda
