// Tiles of bf16 or fp16 rows in shared memory.
#pragma once

#include "kernels/cuda/attention_numbers.h"
#include "kernels/cuda/attention_rows.h"

namespace fm::kernels::cuda {

inline constexpr int kOwnRows = 64;  // of a block, 16 per warp

// Calls run(std::integral_constant<int, d>) for the smallest d that a kernel is made for.
template <class Run>
void with_padded_dim(int dim, const Run& run) {
  if (dim <= 32) return run(std::integral_constant<int, 32>());
  if (dim <= 64) return run(std::integral_constant<int, 64>());
  if (dim <= 96) return run(std::integral_constant<int, 96>());
  if (dim <= 128) return run(std::integral_constant<int, 128>());
  if (dim <= 192) return run(std::integral_constant<int, 192>());
  return run(std::integral_constant<int, kMostDim>());
}

// Calls run(d, whether there is a softcap, whether some probabilities are dropped), all of them
// constants. A test of dropout between the scores of a tile keeps the compiler from computing them
// side by side.
template <class Run>
void with_tile_kernel(const AttentionProblem& problem, const Run& run) {
  const auto with_dim = [](int dim, const auto& of_dim) { with_padded_dim(dim, of_dim); };
  with_kernel(problem, with_dim, [&](auto dim, auto capped) {
    if (problem.kept.dropped != 0) return run(dim, capped, std::true_type());
    run(dim, capped, std::false_type());
  });
}

// Rows lie 16 bytes further apart than they are long: the eight rows of a matrix then lie in
// different banks. In these bytes stand the row's kept bits.
template <class T, int kRows, int kDim>
struct alignas(16) Tile {
  T rows[kRows][kDim + 8];
};
template <class Rows>
inline constexpr int kRowsOf = 0;
template <class T, int kRows, int kDim>
inline constexpr int kRowsOf<Tile<T, kRows, kDim>&> = kRows;
// 8 bytes for each of two tiles.
template <class T, int kRows, int kDim>
__device__ __forceinline__ unsigned char* kept_of(Tile<T, kRows, kDim>& tile, int row, int turn) {
  return reinterpret_cast<unsigned char*>(&tile.rows[row][kDim]) + 8 * turn;
}

// Of a tile whose rows all exist and are as wide as it is: a thread keeps its column and walks over
// rows, so that a copy costs a few additions. With bounds and 64-bit products of its own it costs
// 30 instructions, and the copies of a tile as many as its products.
template <int kRows, int kDim, class T>
__device__ __forceinline__ void load_whole_tile(Tile<T, kRows, kDim>& to,
                                                const HeadRows<const T>& from, int first) {
  constexpr int kPacks = kDim / 8;
  constexpr int kStep = kAttentionThreads / kPacks;
  static_assert(kAttentionThreads % kPacks == 0 && kRows % kStep == 0);
  const int row = static_cast<int>(threadIdx.x) / kPacks;
  const int column = static_cast<int>(threadIdx.x) % kPacks * 8;
  const T* global = from.data + (first + row) * from.stride + column;
#pragma unroll
  for (int i = 0; i < kRows; i += kStep) {
    async_copy_16(&to.rows[row + i][column], global);
    global += kStep * from.stride;
  }
}

// Rows `first` .. of the array, zero where there are none and beyond the head's width; complete
// after async_wait and a barrier.
template <int kRows, int kDim, class T>
__device__ void load_tile(Tile<T, kRows, kDim>& to, const HeadRows<const T>& from, int first) {
  if (from.wide) {
    constexpr int kPacks = kDim / 8;
    // Uniform in the block. Kernels of wider heads have no registers left for it.
    if constexpr (kDim <= 128 && kAttentionThreads % kPacks == 0) {
      if (first >= 0 && first + kRows <= from.count && from.dim == kDim) {
        load_whole_tile(to, from, first);
        return;
      }
    }
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kAttentionThreads) {
      const int row = i / kPacks;
      const int column = i % kPacks * 8;
      const int at = first + row;
      T* const shared = &to.rows[row][column];
      if (at >= 0 && at < from.count && column < from.dim) {
        async_copy_16(shared, from.data + at * from.stride + column);
      } else {
        *reinterpret_cast<uint4*>(shared) = make_uint4(0U, 0U, 0U, 0U);
      }
    }
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim; i += kAttentionThreads) {
    const int row = i / kDim;
    const int column = i % kDim;
    const int at = first + row;
    const bool exists = at >= 0 && at < from.count && column < from.dim;
    to.rows[row][column] = exists ? from.data[at * from.stride + column] : T{};
  }
}

// The keys of 16 queries that a warp owns, `first` the first of them: none where it does not exist.
struct WarpKeys {
  int begin;  // that some of them see
  int end;
  int all_begin;  // that all of them see
  int all_end;
};
__device__ __forceinline__ WarpKeys keys_of_warp(const Positions& at, int row, int first) {
  const Seen of_first = seen_of(at, row, first);
  if (first >= at.queries) return {0, 0, 0, 0};
  const int last = min(first + 15, at.queries - 1);
  return {of_first.begin, seen_end(at, last), first_seen(at, row, last), of_first.end};
}

template <class T>
__device__ __forceinline__ std::uint32_t narrowed_pair(float low, float high) {
  return static_cast<std::uint32_t>(narrowed<T>(low).bits) |
         static_cast<std::uint32_t>(narrowed<T>(high).bits) << 16;
}

// sums [16, 8 kTiles] times a factor of their row to rows `first` + `own` .. of the array, columns
// from `column` on. They pass through the rows `own` .. of the tile, which only this warp uses.
template <int kTiles, class T, int kRows, int kDim>
__device__ void store_tile(const float (&sums)[kTiles][4], const float (&factors)[2],
                           Tile<T, kRows, kDim>& tile, int own, const HeadRows<T>& to, int first,
                           int column) {
  const int lane = lane_of_thread();
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const pair = &sums[n][2 * half];
      *reinterpret_cast<std::uint32_t*>(
          &tile.rows[own + lane / 4 + 8 * half][8 * n + lane % 4 * 2]) =
          narrowed_pair<T>(pair[0] * factors[half], pair[1] * factors[half]);
    }
  }
  __syncwarp();
  const int width = min(8 * kTiles, to.dim - column);
  const int packs = to.wide ? 8 : 1;
  for (int i = lane * packs; i < 16 * 8 * kTiles; i += 32 * packs) {
    const int row = i / (8 * kTiles);
    const int at = i % (8 * kTiles);
    const int target_row = first + own + row;
    if (target_row < 0 || target_row >= to.count || at >= width) continue;
    const T* const from = &tile.rows[own + row][at];
    T* const target = to.data + target_row * to.stride + column + at;
    if (to.wide) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(from);
    } else {
      *target = *from;
    }
  }
}

// Tile `turn` of the keys and values and, where some are dropped, which probabilities stay.
// Memory: with tiles q, and k and v of each turn.
template <bool kDrops, class T, class Memory>
__device__ void load_keys(const AttentionProblem& problem, const QueryTile& at,
                          const HeadRows<const T>& k, const HeadRows<const T>& v, int first,
                          int turn, Memory& memory) {
  load_tile(memory.k[turn], k, first);
  load_tile(memory.v[turn], v, first);
  async_commit();
  if constexpr (!kDrops) return;
  const int query = static_cast<int>(threadIdx.x) / 2;
  const std::uint64_t key = static_cast<std::uint64_t>(problem.positions.first_key + first);
  const std::uint64_t number = first_number(problem, at.row, at.head, at.first + query) + key;
  write_kept<kRowsOf<decltype(memory.k[0])>>(
      problem.kept, number, static_cast<int>(threadIdx.x) % 2, kept_of(memory.q, query, turn));
}

}  // namespace fm::kernels::cuda
