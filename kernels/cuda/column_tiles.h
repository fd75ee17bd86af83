// Sums over rows, for every column: of the rows of a block, and of all blocks.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/rows.h"

namespace fm::kernels::cuda {

// Sums over the rows that a block walks, kCount for every column. They go to partial [kCount,
// width] of the block: at its end where threads hold them, else with every row.
template <int kCount, class Form>
struct ColumnSums {
  float* partial;
  bool fresh;  // no row was added
  Pack<float, Form::kWidth> held[kCount][Form::kHeld];

  __device__ void add(const Columns<Form>& columns, int p,
                      const Pack<float, Form::kWidth> (&steps)[kCount]) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if constexpr (Form::kPacks > 0) {
        plus(held[k][p], steps[k]);
      } else if (columns.has(p)) {
        float* const to = partial + k * columns.width + columns.at(p);
        Pack<float, Form::kWidth> sum = steps[k];
        if (!fresh) plus(sum, load<Form::kWidth>(to));
        store(to, sum);
      }
    }
  }
  template <int kRows, int kWidth>
  __device__ void finish(const Columns<Form>& columns, float (&shared)[kRows][kCount][kWidth]) {
    if constexpr (Form::kPacks > 0 && kRows == 1) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
#pragma unroll
        for (int p = 0; p < Form::kPacks; ++p) {
          if (columns.has(p)) store(partial + k * columns.width + columns.at(p), held[k][p]);
        }
      }
    } else if constexpr (Form::kPacks > 0) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
#pragma unroll
        for (int p = 0; p < Form::kPacks; ++p) {
          store(&shared[threadIdx.x / Form::kGroup][k][columns.at(p)], held[k][p]);
        }
      }
      __syncthreads();
      const int width = static_cast<int>(columns.width);
      for (int i = static_cast<int>(threadIdx.x); i < kCount * width; i += Form::kThreads) {
        float sum = 0.0F;
        for (int row = 0; row < kRows; ++row) sum += shared[row][i / width][i % width];
        partial[i] = sum;
      }
    }
  }
  static __device__ void plus(Pack<float, Form::kWidth>& to,
                              const Pack<float, Form::kWidth>& step) {
#pragma unroll
    for (int i = 0; i < Form::kWidth; ++i) to.at[i] += step.at[i];
  }
};

// Adds the partial sums of all blocks to what is in `into`.
inline constexpr int kTileColumns = 32;
inline constexpr int kTileWarps = 16;
struct TileMemory {
  float sums[kTileWarps][kTileColumns];
};
template <int kCount>
__global__ void __launch_bounds__(kTileColumns* kTileWarps)
    tile_sums(std::int64_t tiles, std::int64_t width, const float* partial,
              std::array<float*, 2> into) {
  auto& shared = shared_memory<TileMemory>();
  const int lane = static_cast<int>(threadIdx.x) % kTileColumns;
  const int warp = static_cast<int>(threadIdx.x) / kTileColumns;
  const std::int64_t column = std::int64_t{blockIdx.x} * kTileColumns + lane;
  float sum = 0.0F;
  if (column < kCount * width) {
#pragma unroll 8
    for (std::int64_t tile = warp; tile < tiles; tile += kTileWarps) {
      sum += partial[tile * kCount * width + column];
    }
  }
  shared.sums[warp][lane] = sum;
  __syncthreads();
  const std::int64_t wanted = into[1] == nullptr ? width : kCount * width;
  if (warp != 0 || column >= wanted) return;
#pragma unroll
  for (int i = 1; i < kTileWarps; ++i) sum += shared.sums[i][lane];
  float* const to = column < width ? into[0] + column : into[1] + (column - width);
  *to += sum;
}

// partial [tiles, kCount, width], of ColumnSums; into: kCount arrays [width] that are added to; the
// second may be null.
template <int kCount>
void add_tiles(const core::Work& work, std::int64_t tiles, std::int64_t width, const float* partial,
               const std::array<float*, 2>& into) {
  const std::int64_t blocks = core::ceil_div(kCount * width, std::int64_t{kTileColumns});
  launch(work, "tile_sums",
         {{static_cast<unsigned>(blocks), 1, 1},
          {kTileColumns * kTileWarps, 1, 1},
          sizeof(TileMemory)},
         tile_sums<kCount>, tiles, width, partial, into);
}

}  // namespace fm::kernels::cuda
