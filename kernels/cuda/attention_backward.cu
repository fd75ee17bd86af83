// Attention backward of bf16 and fp16 (FlashAttention-2, arXiv 2307.08691, section 3.1): a kernel
// over blocks of keys for dk and dv, and one over blocks of queries for dq, so that each sum has
// one owner and one order. Both compute the probabilities again.
#include "kernels/cuda/attention_backward.h"
#include "kernels/cuda/attention_products.h"
#include "kernels/cuda/table.h"

namespace fm::kernels::cuda {
namespace {

constexpr int kWalkedRows = 32;  // of a tile that a block walks over
// Two tiles take turns where 99 KiB hold them.
template <int kDim>
constexpr int kStages = kDim <= 128 ? 2 : 1;

// The rows of a block that stay while it walks, as left factors.
template <int kDim>
using OwnRows = LeftRows<kDim, (kDim <= 64)>;

// A probability and the gradient of its score before the scale. `base`: -logsumexp power, so that
// an exponent is one multiply-add. `stays`: what dropout leaves of 1.
struct Pair {
  float prob;
  float dscore;
};
template <bool kCapped>
__device__ __forceinline__ Pair differentiated(const CappedScore& of, float dprob, bool seen,
                                               float power, float base, float dot, float stays) {
  const float prob = seen ? exp2f_fast(fmaf(of.score, power, base)) : 0.0F;
  const float dscore = prob * (dprob * stays - dot);
  return {prob * stays, kCapped ? dscore * of.slope : dscore};
}

// Gradients of queries.

template <class T, int kDim>
struct QueryMemory {
  Tile<T, kOwnRows, kDim> q;
  Tile<T, kOwnRows, kDim> dout;
  Tile<T, kWalkedRows, kDim> k[kStages<kDim>];
  Tile<T, kWalkedRows, kDim> v[kStages<kDim>];
};

// Of a thread's two queries.
struct QueryPair {
  Seen seen[2];
  float base[2];  // of `differentiated`
  float dot[2];
};
__device__ __forceinline__ QueryPair query_pair(const AttentionProblem& problem,
                                                const QueryTile& at, int own,
                                                const float* logsumexp, const Dots& dots) {
  QueryPair pair;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = at.first + own + lane_of_thread() / 4 + 8 * half;
    const std::int64_t before = std::int64_t{at.all} * problem.positions.queries;
    const bool exists = query < problem.positions.queries;
    pair.seen[half] = seen_of(problem.positions, at.row, query);
    pair.base[half] = exists ? -logsumexp[before + query] * problem.power : 0.0F;
    pair.dot[half] = exists ? dots.values[before - dots.first_row + query] : 0.0F;
  }
  return pair;
}

// Gradients of the scores of 16 queries and a tile of keys, from scores and gradients of
// probabilities, in the place of scores.
template <bool kCapped, bool kDrops, int kTiles>
__device__ __forceinline__ void differentiate_queries(
    const AttentionProblem& problem, const QueryPair& pair, int first, const unsigned char* upper,
    const unsigned char* lower, float (&scores)[kTiles][4], const float (&dprobs)[kTiles][4]) {
  const int column = lane_of_thread() % 4 * 2;
  const float power = problem.power;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const unsigned bits[2] = {kDrops ? upper[n] : 0U, kDrops ? lower[n] : 0U};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int half = i / 2;
      const int key = first + 8 * n + column + i % 2;
      const bool seen = key >= pair.seen[half].begin && key < pair.seen[half].end;
      const bool stays = (bits[half] >> (column + i % 2)) % 2 != 0;
      const float left = kDrops ? (stays ? problem.kept.scale : 0.0F) : 1.0F;
      scores[n][i] =
          differentiated<kCapped>(capped_score<kCapped>(problem, scores[n][i]), dprobs[n][i], seen,
                                  power, pair.base[half], pair.dot[half], left)
              .dscore;
    }
  }
}

template <class T, int kDim, bool kCapped, bool kDrops>
__global__ void __launch_bounds__(kAttentionThreads, kLeastBlocks)
    attention_backward_queries(AttentionProblem problem, AttentionBackward<T> arrays, Dots dots) {
  constexpr int kTurns = kStages<kDim>;
  auto& memory = shared_memory<QueryMemory<T, kDim>>();
  const Positions& positions = problem.positions;
  const QueryTile at = query_tile<kOwnRows>(problem, static_cast<int>(dots.first_head));
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = lane_of_thread();
  const WarpKeys seen = keys_of_warp(positions, at.row, at.first + own);

  float sums[kDim / 8][4] = {};
  OwnRows<kDim> queries;
  OwnRows<kDim> gradients;
  const int last = min(at.first + kOwnRows, positions.queries) - 1;
  const TileRange tiles = key_tiles(positions, at.row, at.first, last, kWalkedRows);
  const int lead = key_lead(positions);
  const int kv_head = at.head / (problem.heads / problem.kv_heads);
  const auto k = key_rows(problem, arrays.k, at.row, kv_head);
  const auto v = key_rows(problem, arrays.v, at.row, kv_head);
  if (tiles.begin < tiles.end) {
    load_tile(memory.q, query_rows(problem, arrays.q, at.row, at.head), at.first);
    load_tile(memory.dout, query_rows(problem, arrays.dout, at.row, at.head), at.first);
    load_keys<kDrops>(problem, at, k, v, tiles.begin * kWalkedRows - lead, tiles.begin % kTurns,
                      memory);
  }
  const QueryPair pair = query_pair(problem, at, own, arrays.logsumexp, dots);
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    const int turn = tile % kTurns;
    const int first = tile * kWalkedRows - lead;
    if (kTurns == 1 && tile > tiles.begin) {
      __syncthreads();  // the tile before is done with
      load_keys<kDrops>(problem, at, k, v, first, turn, memory);
    }
    async_wait<0>();
    __syncthreads();  // the tile is there; of two, the one before is done with
    if (kTurns == 2 && tile + 1 < tiles.end) {
      load_keys<kDrops>(problem, at, k, v, first + kWalkedRows, 1 - turn, memory);
    }
    if (tile == tiles.begin) {
      hold_left(queries, memory.q, own);
      hold_left(gradients, memory.dout, own);
    }
    if (first >= seen.end || first + kWalkedRows <= seen.begin) continue;
    float scores[kWalkedRows / 8][4];
    float dprobs[kWalkedRows / 8][4];
    multiply_rows<T>(scores, queries, memory.q, own, memory.k[turn]);
    multiply_rows<T>(dprobs, gradients, memory.dout, own, memory.v[turn]);
    differentiate_queries<kCapped, kDrops>(
        problem, pair, first, kept_of(memory.q, own + lane / 4, turn),
        kept_of(memory.q, own + lane / 4 + 8, turn), scores, dprobs);
    std::uint32_t dscores[kWalkedRows / 16][4];
    to_left<T>(scores, dscores);
    multiply_columns<T>(sums, dscores, memory.k[turn], 0);
  }
  const float factor[2] = {problem.scale, problem.scale};
  store_tile(sums, factor, memory.q, own, query_rows(problem, arrays.dq, at.row, at.head), at.first,
             0);
}

// Gradients of keys and values.

// Heads of more than 128 columns are left to two blocks, half the columns of the sums to each.
template <int kDim>
constexpr int kParts = kDim <= 128 ? 1 : 2;

template <class T, int kDim>
struct KeyMemory {
  Tile<T, kOwnRows, kDim> k;
  Tile<T, kOwnRows, kDim> v;
  Tile<T, kWalkedRows, kDim> q[kStages<kDim>];
  Tile<T, kWalkedRows, kDim> dout[kStages<kDim>];
};

// What is known of a query beside its row of dout.
struct alignas(16) QueryNumbers {
  int begin;  // of the keys that it sees
  int end;
  float logsumexp;
  float dot;
};
template <class T, int kDim>
__device__ __forceinline__ QueryNumbers& numbers_of(Tile<T, kWalkedRows, kDim>& dout, int row) {
  return *reinterpret_cast<QueryNumbers*>(&dout.rows[row][kDim]);
}

// A block of keys of one key/value head, and the tiles of queries that may see some of them.
struct KeyTile {
  int row;
  int kv_head;
  int first;  // key
  int part;   // of the columns
  TileRange tiles;
};
template <int kDim>
__device__ __forceinline__ KeyTile key_tile(const AttentionProblem& problem, const Dots& dots) {
  const std::int64_t group = problem.heads / problem.kv_heads;
  const std::int64_t groups = dots.heads / group;
  const std::int64_t index = blockIdx.x / kParts<kDim>;
  const auto all = static_cast<int>(dots.first_head / group + index % groups);
  const int first = static_cast<int>(index / groups) * kOwnRows - key_lead(problem.positions);
  const int row = all / problem.kv_heads;
  const int begin = problem.positions.earlier ? 0 : max(first, 0);
  const int end = seeing_end(problem.positions, row, first, first + kOwnRows);
  return {row,
          all % problem.kv_heads,
          first,
          static_cast<int>(blockIdx.x % kParts<kDim>),
          {begin / kWalkedRows, (end + kWalkedRows - 1) / kWalkedRows}};
}

// The tile's queries and their gradients. Their numbers are copied like them, so that no thread
// waits for memory before its products.
template <bool kDrops, class T, int kDim>
__device__ void load_queries(const AttentionProblem& problem, const AttentionBackward<T>& arrays,
                             const Dots& dots, const KeyTile& at, int head, int first, int turn,
                             KeyMemory<T, kDim>& memory) {
  load_tile(memory.q[turn], query_rows(problem, arrays.q, at.row, head), first);
  load_tile(memory.dout[turn], query_rows(problem, arrays.dout, at.row, head), first);
  const int thread = static_cast<int>(threadIdx.x);
  const int queries = problem.positions.queries;
  if (thread < kWalkedRows) {
    const int query = first + thread;
    const Seen seen = seen_of(problem.positions, at.row, query);
    QueryNumbers& numbers = numbers_of(memory.dout[turn], thread);
    numbers.begin = seen.begin;
    numbers.end = seen.end;
    if (query < queries) {
      const std::int64_t place = (std::int64_t{at.row} * problem.heads + head) * queries + query;
      async_copy_4(&numbers.logsumexp, arrays.logsumexp + place);
      async_copy_4(&numbers.dot, dots.values + (place - dots.first_row));
    } else {
      numbers.logsumexp = 0.0F;
      numbers.dot = 0.0F;
    }
  }
  async_commit();
  if (!kDrops || thread >= 2 * kWalkedRows) return;
  const std::uint64_t key = static_cast<std::uint64_t>(problem.positions.first_key + at.first);
  const std::uint64_t number = first_number(problem, at.row, head, first + thread / 2) + key;
  write_kept<kOwnRows>(problem.kept, number, thread % 2, kept_of(memory.q[turn], thread / 2, 0));
}

// Of 16 keys and a tile of queries: scores become probabilities after dropout, gradients of
// probabilities those of scores.
template <bool kCapped, bool kDrops, class T, int kDim, int kTiles>
__device__ __forceinline__ void differentiate_keys(const AttentionProblem& problem, int own,
                                                   int first, Tile<T, kWalkedRows, kDim>& q,
                                                   Tile<T, kWalkedRows, kDim>& dout,
                                                   float (&scores)[kTiles][4],
                                                   float (&dprobs)[kTiles][4]) {
  const int lane = lane_of_thread();
  const float power = problem.power;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int query = 8 * n + lane % 4 * 2 + j;
      const QueryNumbers numbers = numbers_of(dout, query);
      const float base = -numbers.logsumexp * power;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int key = first + own + lane / 4 + 8 * half;
        const bool seen = key >= numbers.begin && key < numbers.end;
        float left = 1.0F;
        if constexpr (kDrops) {
          const unsigned bits = kept_of(q, query, 0)[own / 8 + half];
          left = (bits >> (lane / 4)) % 2 != 0 ? problem.kept.scale : 0.0F;
        }
        const int i = 2 * half + j;
        const Pair pair =
            differentiated<kCapped>(capped_score<kCapped>(problem, scores[n][i]), dprobs[n][i],
                                    seen, power, base, numbers.dot, left);
        scores[n][i] = pair.prob;
        dprobs[n][i] = pair.dscore;
      }
    }
  }
}

template <class T, int kDim, bool kCapped, bool kDrops>
__global__ void __launch_bounds__(kAttentionThreads, kLeastBlocks)
    attention_backward_keys(AttentionProblem problem, AttentionBackward<T> arrays, Dots dots) {
  constexpr int kTurns = kStages<kDim>;
  constexpr int kColumns = kDim / kParts<kDim>;
  auto& memory = shared_memory<KeyMemory<T, kDim>>();
  const Positions& positions = problem.positions;
  const KeyTile at = key_tile<kDim>(problem, dots);
  const int own = static_cast<int>(threadIdx.x) / 32 * 16;  // the warp's keys of the block's
  const int column = at.part * kColumns;
  const int group = problem.heads / problem.kv_heads;
  const int tiles = max(at.tiles.end - at.tiles.begin, 0);

  float dk[kColumns / 8][4] = {};
  float dv[kColumns / 8][4] = {};
  OwnRows<kDim> keys;
  OwnRows<kDim> values;
  if (tiles > 0) {
    load_tile(memory.k, key_rows(problem, arrays.k, at.row, at.kv_head), at.first);
    load_tile(memory.v, key_rows(problem, arrays.v, at.row, at.kv_head), at.first);
    load_queries<kDrops>(problem, arrays, dots, at, at.kv_head * group,
                         at.tiles.begin * kWalkedRows, 0, memory);
  }
  // Heads of the group, one after the other; of each, the tiles of queries.
  int head = at.kv_head * group;
  int tile = at.tiles.begin;
  for (int step = 0; step < group * tiles; ++step) {
    const int turn = step % kTurns;
    const int first = tile * kWalkedRows;
    if (kTurns == 1 && step > 0) {
      __syncthreads();  // the tile before is done with
      load_queries<kDrops>(problem, arrays, dots, at, head, first, turn, memory);
    }
    async_wait<0>();
    __syncthreads();  // the tile is there; of two, the one before is done with
    if (++tile == at.tiles.end) {
      tile = at.tiles.begin;
      ++head;
    }
    if (kTurns == 2 && step + 1 < group * tiles) {
      load_queries<kDrops>(problem, arrays, dots, at, head, tile * kWalkedRows, 1 - turn, memory);
    }
    if (step == 0) {
      hold_left(keys, memory.k, own);
      hold_left(values, memory.v, own);
    }
    const int last = min(first + kWalkedRows, positions.queries) - 1;
    const int key = at.first + own;
    if (key >= seen_end(positions, last) || key + 16 <= numbers_of(memory.dout[turn], 0).begin) {
      continue;
    }
    float scores[kWalkedRows / 8][4];
    float dprobs[kWalkedRows / 8][4];
    multiply_rows<T>(scores, keys, memory.k, own, memory.q[turn]);
    multiply_rows<T>(dprobs, values, memory.v, own, memory.dout[turn]);
    differentiate_keys<kCapped, kDrops>(problem, own, at.first, memory.q[turn], memory.dout[turn],
                                        scores, dprobs);
    std::uint32_t left[kWalkedRows / 16][4];
    to_left<T>(scores, left);
    multiply_columns<T>(dv, left, memory.dout[turn], column);
    to_left<T>(dprobs, left);
    multiply_columns<T>(dk, left, memory.q[turn], column);
  }
  const float of_keys[2] = {problem.scale, problem.scale};
  const float of_values[2] = {1.0F, 1.0F};
  store_tile(dk, of_keys, memory.k, own, key_rows(problem, arrays.dk, at.row, at.kv_head), at.first,
             column);
  store_tile(dv, of_values, memory.v, own, key_rows(problem, arrays.dv, at.row, at.kv_head),
             at.first, column);
}

template <class T, int kDim, bool kCapped, bool kDrops>
void launch_backward(const core::Work& work, const AttentionProblem& problem,
                     const AttentionBackward<T>& arrays, const Dots& dots) {
  const std::int64_t lead = problem.positions.first_key % kDropoutGroup;
  const std::int64_t key_tiles = core::ceil_div(lead + problem.positions.keys, kOwnRows);
  const std::int64_t groups = dots.heads * problem.kv_heads / problem.heads;
  const dim3 threads = {kAttentionThreads, 1, 1};
  const std::int64_t key_blocks = key_tiles * groups * kParts<kDim>;
  launch(work, "attention_backward_keys",
         {grid_of(key_blocks), threads, shared_bytes_of<KeyMemory<T, kDim>>()},
         attention_backward_keys<T, kDim, kCapped, kDrops>, problem, arrays, dots);
  launch(
      work, "attention_backward_queries",
      {query_grid<kOwnRows>(problem, dots.heads), threads, shared_bytes_of<QueryMemory<T, kDim>>()},
      attention_backward_queries<T, kDim, kCapped, kDrops>, problem, arrays, dots);
}

template <class T>
void attention_backward(core::Work& work, const AttentionShape& shape,
                        const AttentionBackward<T>& arrays) {
  AttentionProblem problem = problem_of(shape);
  problem.wide = problem.dim % 8 == 0 && aligned(arrays.q, arrays.k, arrays.v, arrays.out,
                                                 arrays.dout, arrays.dq, arrays.dk, arrays.dv);
  for_pieces_of_dots(work, problem, arrays.out, arrays.dout, [&](const Dots& dots) {
    with_tile_kernel(problem, [&](auto dim, auto capped, auto drops) {
      launch_backward<T, dim(), capped(), drops()>(work, problem, arrays, dots);
    });
  });
}

}  // namespace

void fill_attention_backward(DeviceKernels& table) {
  table.products.bf16.attention_backward = attention_backward<core::Bf16>;
  table.products.fp16.attention_backward = attention_backward<core::F16>;
}

}  // namespace fm::kernels::cuda
