// Walks over the rows of matrices, whose widths and strides may be any.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/walk.h"
#include "kernels/rows.h"

namespace fm::kernels::cuda {

// How many elements of T, beside fp32 or not, a thread takes at a time.
template <class T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

// Blocks of kWalkThreads per multiprocessor, which has 48 registers for each of their threads. A
// kernel that is told so in its launch bounds keeps its loads in flight, where the compiler would
// else save registers.
inline constexpr int kRowBlocks = 5;
inline unsigned row_blocks(const core::Work& work, std::int64_t items) {
  const std::int64_t most = std::int64_t{kRowBlocks} * multiprocessors(work);
  return static_cast<unsigned>(
      std::clamp(core::ceil_div(items, kWalkThreads), std::int64_t{1}, most));
}

// Calls body.run<kWidth>(row, column) for columns 0, kWidth, ... of every row, and run<1> for what
// is left of a row.
template <int kWidth, class Body>
__global__ void __launch_bounds__(kWalkThreads, kRowBlocks) walk_rows(RowShape shape, Body body) {
  const std::int64_t packs = core::ceil_div(shape.width, kWidth);
  const std::int64_t first = std::int64_t{blockIdx.x} * kWalkThreads + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kWalkThreads;
  // A step of the loop needs no division.
  const std::int64_t rows_on = stride / packs;
  const std::int64_t packs_on = stride % packs;
  std::int64_t pack = first % packs;
  for (std::int64_t row = first / packs; row < shape.rows; row += rows_on) {
    const std::int64_t column = pack * kWidth;
    if (column + kWidth <= shape.width) {
      body.template run<kWidth>(row, column);
    } else {
      for (std::int64_t i = column; i < shape.width; ++i) body.template run<1>(row, i);
    }
    pack += packs_on;
    if (pack >= packs) {
      pack -= packs;
      ++row;
    }
  }
}

// `wide`: whether accesses of 16 bytes may begin at every row of the body's arrays.
template <int kWidth, class Body>
void over_rows(const core::Work& work, const char* name, RowShape shape, bool wide,
               const Body& body) {
  if (shape.rows == 0 || shape.width == 0) return;
  if (wide) {
    const std::int64_t packs = shape.rows * core::ceil_div(shape.width, kWidth);
    launch(work, name, {{row_blocks(work, packs), 1, 1}}, walk_rows<kWidth, Body>, shape, body);
  } else {
    launch(work, name, {{row_blocks(work, shape.rows * shape.width), 1, 1}}, walk_rows<1, Body>,
           shape, body);
  }
}

// Element by element.
template <class T, int kWidth>
__device__ __forceinline__ Pack<float, kWidth> plus(Pack<float, kWidth> sum,
                                                    const Pack<T, kWidth>& values) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sum.at[i] += widened(values.at[i]);
  return sum;
}

inline constexpr int kWarp = 32;

// Blocks (x, y) of whole warps: one thread for each of `items` in a row, at most `most` of them in
// a block, and `rows` blocks one below the other, at most 65,535.
inline Launch over_columns(std::int64_t items, std::int64_t rows, std::int64_t most) {
  const std::int64_t threads = std::min(most, core::ceil_div(items, kWarp) * kWarp);
  return {{static_cast<unsigned>(core::ceil_div(items, threads)), static_cast<unsigned>(rows), 1},
          {static_cast<unsigned>(threads), 1, 1}};
}

}  // namespace fm::kernels::cuda
