// Walks over rows: by groups of threads that keep a row in registers while they add it up, or by
// threads that keep their columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/walk.h"
#include "kernels/rows.h"

namespace fm::kernels::cuda {

// How a block walks rows: kGroup threads take one, kWidth neighbours at a time. They hold a row of
// at most kPacks * kGroup * kWidth elements in registers, and read a longer one again for every use
// (kPacks is 0). Groups of at most a warp share a block.
template <int kWidthOfPack, int kThreadsOfRow, int kPacksOfThread>
struct RowForm {
  static constexpr int kWidth = kWidthOfPack;
  static constexpr int kGroup = kThreadsOfRow;
  static constexpr int kPacks = kPacksOfThread;
  static constexpr int kMost = kPacks * kGroup * kWidth;  // elements that are held
  static constexpr int kHeld = kPacks > 0 ? kPacks : 1;
  static constexpr int kUnroll = kPacks > 0 ? kPacks : 4;
  static constexpr int kThreads = kGroup > 32 ? kGroup : 256;
  // Blocks of a multiprocessor, at least, which says how many registers a thread may have.
  static constexpr int kBlocks = (kPacks > 1 ? 512 : kGroup < 32 ? 768 : 1024) / kThreads;
  static constexpr int kRows = kThreads / kGroup;               // at a time
  static constexpr int kWarps = kGroup > 32 ? kGroup / 32 : 1;  // of a row
};

// Calls run(RowForm) with the one for rows of `width`. `wide`: arrays allow 16 bytes at once.
template <class T, class Run>
void by_form(std::int64_t width, bool wide, const Run& run) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  if (!wide || width % kWide != 0) return run(RowForm<1, 256, 0>());
  const std::int64_t packs = width / kWide;
  if (packs <= 8) return run(RowForm<kWide, 8, 1>());
  if (packs <= 16) return run(RowForm<kWide, 16, 1>());
  if (packs <= 64) return run(RowForm<kWide, 32, 2>());
  if (packs <= 128) return run(RowForm<kWide, 128, 1>());
  if (packs <= 256) return run(RowForm<kWide, 256, 1>());
  if (packs <= 512) return run(RowForm<kWide, 256, 2>());
  if (packs <= 1024) return run(RowForm<kWide, 512, 2>());
  run(RowForm<kWide, 512, 0>());
}

// How many blocks walk so many rows: as many as the card runs at a time.
template <class Form>
unsigned row_blocks(const core::Work& work, std::int64_t rows) {
  constexpr std::int64_t kThreadsAtATime = 2048;  // of a multiprocessor
  const std::int64_t most = kThreadsAtATime / Form::kThreads * multiprocessors(work);
  return static_cast<unsigned>(std::min(core::ceil_div(rows, std::int64_t{Form::kRows}), most));
}

// The columns of a thread: packs() packs of kWidth.
template <class Form>
struct Columns {
  std::int64_t first;
  std::int64_t width;

  __device__ int packs() const {
    if constexpr (Form::kPacks > 0) return Form::kPacks;
    constexpr int kStep = Form::kGroup * Form::kWidth;
    return static_cast<int>((width + kStep - 1) / kStep);  // the same for all threads
  }
  __device__ std::int64_t at(int pack) const {
    return first + std::int64_t{pack} * (Form::kGroup * Form::kWidth);
  }
  __device__ bool has(int pack) const { return at(pack) < width; }
  // Zeros where the row is null, and beyond its end.
  template <class T>
  __device__ Pack<T, Form::kWidth> load(const T* row, int pack) const {
    if (row == nullptr || !has(pack)) return {};
    return cuda::load<Form::kWidth>(row + at(pack));
  }
};
template <class Form>
__device__ Columns<Form> columns_of(std::int64_t width) {
  return {std::int64_t{threadIdx.x % Form::kGroup} * Form::kWidth, width};
}

// What a thread holds of a row.
template <class T, class Form>
struct HeldRow {
  Pack<T, Form::kWidth> packs[Form::kHeld];

  __device__ void read(const Columns<Form>& columns, const T* row) {
    if constexpr (Form::kPacks > 0) {
#pragma unroll
      for (int p = 0; p < Form::kPacks; ++p) packs[p] = columns.load(row, p);
    }
  }
  __device__ Pack<T, Form::kWidth> at(const Columns<Form>& columns, const T* row, int p) const {
    if constexpr (Form::kPacks > 0) return packs[p];
    return columns.load(row, p);
  }
};

// Sums of the warps of a row. They alternate between two places, so that one barrier per sum is
// enough: who writes a place again has passed the barrier of the other, before which all had read.
template <class Sum, int kCount, class Form>
struct RowSums {
  Sum at[2][kCount][Form::kWarps];
};

// Of every thread of a group, the sums over all of them.
template <class Form, int kCount, class Sum>
__device__ void add_over_group(Sum (&sums)[kCount], Sum (&shared)[kCount][Form::kWarps]) {
  constexpr int kExchange = Form::kGroup < 32 ? Form::kGroup : 32;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
#pragma unroll
    for (int by = 1; by < kExchange; by *= 2) {
      sums[k] += __shfl_xor_sync(0xffffffffU, sums[k], by);
    }
  }
  if constexpr (Form::kWarps > 1) {
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) shared[k][threadIdx.x / 32] = sums[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      sums[k] = shared[k][0];
#pragma unroll
      for (int warp = 1; warp < Form::kWarps; ++warp) sums[k] += shared[k][warp];
    }
  }
}

// A thread keeps its columns and walks down the rows, kRowsAtOnce loads before their stores.
inline constexpr int kRowsAtOnce = 4;
template <int kWidth, class Body>
__global__ void __launch_bounds__(kWalkThreads)
    walk_down(RowShape shape, std::int64_t stripes, int across, Body body) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t column = (blockIdx.x % stripes * across + thread % across) * kWidth;
  if (column >= shape.width) return;
  const auto columns = body.template columns<kWidth>(column);
  const int down = kWalkThreads / across;
  const std::int64_t stride = gridDim.x / stripes * down;
  for (std::int64_t first = blockIdx.x / stripes * down + thread / across; first < shape.rows;
       first += stride * kRowsAtOnce) {
    typename Body::template OfRow<kWidth> rows[kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const std::int64_t row = first + i * stride;
      if (row < shape.rows) rows[i] = body.template row<kWidth>(row, row * shape.width + column);
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const std::int64_t row = first + i * stride;
      if (row < shape.rows) body.write(columns, rows[i], row * shape.width + column);
    }
  }
}

// Body: an aggregate with columns<kWidth>(column), which loads what belongs to kWidth columns,
// row<kWidth>(row, at), which loads kWidth elements of a row, and write(columns, row, at).
template <class T, class Body>
void walk_rows(const core::Work& work, const char* name, RowShape shape, bool wide,
               const Body& body) {
  if (shape.rows == 0 || shape.width == 0) return;
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  wide = wide && shape.width % kWide == 0;
  const std::int64_t packs = wide ? shape.width / kWide : shape.width;
  int across = 1;
  while (across < kWalkThreads && across < packs) across *= 2;
  const std::int64_t stripes = core::ceil_div(packs, std::int64_t{across});
  const std::int64_t blocks = walk_blocks(work, shape.rows * across * stripes);
  const std::int64_t grid = std::max(std::int64_t{1}, blocks / stripes) * stripes;
  launch(work, name, {{static_cast<unsigned>(grid), 1, 1}, {kWalkThreads, 1, 1}},
         wide ? walk_down<kWide, Body> : walk_down<1, Body>, shape, stripes, across, body);
}

}  // namespace fm::kernels::cuda
