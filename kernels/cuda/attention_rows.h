// Where the rows of a head lie, for the kernels of attention.
#pragma once

#include "kernels/cuda/attention.h"

namespace fm::kernels::cuda {

// The rows of one head in an array: row i begins at data + i stride.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t stride;
  int count;
  int dim;
  bool wide;
};

// A block of queries of one head.
struct QueryTile {
  int row;  // of the batch
  int head;
  int all;    // row heads + head
  int first;  // query
};
// Of `heads` heads of the rows of the batch.
template <int kRows>
dim3 query_grid(const AttentionProblem& problem, std::int64_t heads) {
  constexpr int kMostTiles = 65535;
  FM_CHECK(problem.positions.queries <= kMostTiles * kRows,
           "a kernel's queries of a row are at most ", kMostTiles * kRows,
           " (queries=", problem.positions.queries, ")");
  dim3 grid = grid_of(heads);
  grid.y = static_cast<unsigned>(core::ceil_div(problem.positions.queries, kRows));
  return grid;
}
// From `first_head` on. The last queries of causal attention see most and begin first.
template <int kRows>
__device__ __forceinline__ QueryTile query_tile(const AttentionProblem& problem, int first_head) {
  const int all = first_head + static_cast<int>(blockIdx.x);
  return {all / problem.heads, all % problem.heads, all,
          static_cast<int>(gridDim.y - 1 - blockIdx.y) * kRows};
}

// Of a head in arrays like q.
template <class T>
__device__ __forceinline__ HeadRows<T> query_rows(const AttentionProblem& problem, T* array,
                                                  int row, int head) {
  const std::int64_t stride = std::int64_t{problem.heads} * problem.dim;
  const std::int64_t tokens = std::int64_t{row} * problem.positions.queries;
  return {array + tokens * stride + std::int64_t{head} * problem.dim, stride,
          problem.positions.queries, problem.dim, problem.wide};
}
// Of a key/value head in arrays like k.
template <class T>
__device__ __forceinline__ HeadRows<T> key_rows(const AttentionProblem& problem, T* array, int row,
                                                int kv_head) {
  const std::int64_t stride = std::int64_t{problem.kv_heads} * problem.dim;
  const std::int64_t tokens = std::int64_t{row} * problem.positions.keys;
  return {array + tokens * stride + std::int64_t{kv_head} * problem.dim, stride,
          problem.positions.keys, problem.dim, problem.wide};
}

}  // namespace fm::kernels::cuda
