// Attention forward of bf16 and fp16: 64 queries of a head per block, 16 per warp, which walk over
// tiles of keys and values. Two tiles take turns: the next arrives while one is computed.
#include "kernels/cuda/attention_products.h"
#include "kernels/cuda/table.h"

namespace fm::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T, int kDim>
struct ForwardMemory {
  static constexpr int kKeys = kDim <= 64 ? 64 : 32;
  Tile<T, kOwnRows, kDim> q;
  Tile<T, kKeys, kDim> k[2];
  Tile<T, kKeys, kDim> v[2];
};

// What a thread knows of its two queries, rows lane / 4 and 8 more of its warp's: the keys that
// they see, their largest score so far as a power of 2, and its part of the sum of their
// probabilities.
struct Softmax {
  Seen seen[2];
  float largest[2];
  float sum[2];
};

__device__ __forceinline__ Softmax begin_softmax(const Positions& positions, const QueryTile& at,
                                                 int own) {
  const int query = at.first + own + lane_of_thread() / 4;
  return {{seen_of(positions, at.row, query), seen_of(positions, at.row, query + 8)},
          {-kInfinity, -kInfinity},
          {0.0F, 0.0F}};
}

// Scores of keys that a query does not see become -infinity. `first`: the tile's first key.
template <int kTiles>
__device__ __forceinline__ void hide(float (&scores)[kTiles][4], const Softmax& softmax,
                                     int first) {
  const int column = lane_of_thread() % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first + 8 * n + column + i % 2;
      const Seen& seen = softmax.seen[i / 2];
      if (key < seen.begin || key >= seen.end) scores[n][i] = -kInfinity;
    }
  }
}

// Scores become capped ones over problem.outer: one number less is held while they are softened.
template <int kTiles>
__device__ __forceinline__ void cap(float (&scores)[kTiles][4], const AttentionProblem& problem) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = tanhf(scores[n][i] * problem.inner);
  }
}

// Scores become probabilities relative to the largest score so far; what is summed of a query until
// now becomes relative to it, too. `power`: of a score, to the base 2.
template <int kTiles, int kSums>
__device__ __forceinline__ void soften(float (&scores)[kTiles][4], float power, Softmax& softmax,
                                       float (&sums)[kSums][4]) {
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = -kInfinity;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      largest = max(largest, max(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = max(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    largest = max(softmax.largest[half], largest * power);
    const float shift = largest == -kInfinity ? 0.0F : largest;  // all keys so far are hidden
    factor[half] = exp2f_fast(softmax.largest[half] - shift);
    softmax.largest[half] = largest;
    float sum = softmax.sum[half] * factor[half];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2f_fast(fmaf(scores[n][i], power, -shift));
        sum += scores[n][i];
      }
    }
    softmax.sum[half] = sum;
  }
  // Most tiles have no larger score than those before, for any of the warp's queries.
  const bool unchanged = factor[0] == 1.0F && factor[1] == 1.0F;
  if (__ballot_sync(0xffffffffU, unchanged) == 0xffffffffU) return;
#pragma unroll
  for (int n = 0; n < kSums; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] *= factor[i / 2];
  }
}

// `bits`: the kept bits of the thread's two queries, a byte per 8 keys.
template <int kTiles>
__device__ __forceinline__ void drop(float (&probs)[kTiles][4], const unsigned char* upper,
                                     const unsigned char* lower, float scale) {
  const int column = lane_of_thread() % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const unsigned bits[2] = {upper[n], lower[n]};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool stays = (bits[i / 2] >> (column + i % 2)) % 2 != 0;
      probs[n][i] = stays ? probs[n][i] * scale : 0.0F;
    }
  }
}

// Of the thread's two queries, each sum and its logarithm; all four threads of a query have parts.
__device__ __forceinline__ void finish(const AttentionProblem& problem, const QueryTile& at,
                                       int own, const Softmax& softmax, float unit, float power,
                                       float* logsumexp, float (&factor)[2]) {
  const int lane = lane_of_thread();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = softmax.sum[half];
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    factor[half] = sum > 0.0F ? 1.0F / sum : 0.0F;
    const int query = at.first + own + lane / 4 + 8 * half;
    if (lane % 4 == 0 && query < problem.positions.queries) {
      logsumexp[std::int64_t{at.all} * problem.positions.queries + query] =
          (softmax.largest[half] + log2f(sum)) / power * unit;
    }
  }
}

template <class T, int kDim, bool kCapped, bool kDrops>
__global__ void __launch_bounds__(kAttentionThreads, kLeastBlocks)
    attention_forward_tiles(AttentionProblem problem, AttentionForward<T> arrays) {
  using Memory = ForwardMemory<T, kDim>;
  constexpr int kKeys = Memory::kKeys;
  auto& memory = shared_memory<Memory>();
  const Positions& positions = problem.positions;
  const QueryTile at = query_tile<kOwnRows>(problem, 0);
  const int lane = lane_of_thread();
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;  // the warp's queries of the block's
  const float unit = kCapped ? problem.outer : 1.0F;        // of scores
  const float power = problem.power * unit;

  Softmax softmax = begin_softmax(positions, at, own);
  const WarpKeys seen = keys_of_warp(positions, at.row, at.first + own);

  float sums[kDim / 8][4] = {};
  LeftRows<kDim, (kDim <= 128)> queries;
  const int last = min(at.first + kOwnRows, positions.queries) - 1;
  const TileRange tiles = key_tiles(positions, at.row, at.first, last, kKeys);
  const int lead = key_lead(positions);
  const int kv_head = at.head / (problem.heads / problem.kv_heads);
  const auto q = query_rows(problem, arrays.q, at.row, at.head);
  const auto k = key_rows(problem, arrays.k, at.row, kv_head);
  const auto v = key_rows(problem, arrays.v, at.row, kv_head);
  if (tiles.begin < tiles.end) {
    load_tile(memory.q, q, at.first);
    load_keys<kDrops>(problem, at, k, v, tiles.begin * kKeys - lead, tiles.begin % 2, memory);
  }
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    const int turn = tile % 2;
    const int first = tile * kKeys - lead;
    async_wait<0>();
    __syncthreads();  // the tile is there, and the one before is done with
    if (tile + 1 < tiles.end) load_keys<kDrops>(problem, at, k, v, first + kKeys, 1 - turn, memory);
    if (tile == tiles.begin) hold_left(queries, memory.q, own);
    if (first >= seen.end || first + kKeys <= seen.begin) continue;
    float scores[kKeys / 8][4];
    multiply_rows<T>(scores, queries, memory.q, own, memory.k[turn]);
    if constexpr (kCapped) cap(scores, problem);
    if (first < seen.all_begin || first + kKeys > seen.all_end) hide(scores, softmax, first);
    soften(scores, power, softmax, sums);
    if constexpr (kDrops) {
      drop(scores, kept_of(memory.q, own + lane / 4, turn),
           kept_of(memory.q, own + lane / 4 + 8, turn), problem.kept.scale);
    }
    std::uint32_t probs[kKeys / 16][4];
    to_left<T>(scores, probs);
    multiply_columns<T>(sums, probs, memory.v[turn], 0);
  }
  float factor[2];
  finish(problem, at, own, softmax, unit, power, arrays.logsumexp, factor);
  store_tile(sums, factor, memory.q, own, query_rows(problem, arrays.out, at.row, at.head),
             at.first, 0);
}

template <class T>
void attention_forward(core::Work& work, const AttentionShape& shape,
                       const AttentionForward<T>& arrays) {
  AttentionProblem problem = problem_of(shape);
  if (problem.batch == 0 || problem.positions.queries == 0) return;
  problem.wide = problem.dim % 8 == 0 && aligned(arrays.q, arrays.k, arrays.v, arrays.out);
  const dim3 grid = query_grid<kOwnRows>(problem, std::int64_t{problem.batch} * problem.heads);
  with_tile_kernel(problem, [&](auto dim, auto capped, auto drops) {
    launch(work, "attention_forward",
           {grid, {kAttentionThreads, 1, 1}, shared_bytes_of<ForwardMemory<T, dim()>>()},
           attention_forward_tiles<T, dim(), capped(), drops()>, problem, arrays);
  });
}

}  // namespace

void fill_attention(DeviceKernels& table) {
  table.products.bf16.attention_forward = attention_forward<core::Bf16>;
  table.products.fp16.attention_forward = attention_forward<core::F16>;
}

}  // namespace fm::kernels::cuda
