// What the kernels of attention share (FlashAttention-2, arXiv 2307.08691): a call's numbers, and
// which keys a query sees.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/check.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda/walk.h"

namespace fm::kernels::cuda {

inline constexpr int kAttentionThreads = 128;
// Of a multiprocessor at a time: leaves each thread 255 registers.
inline constexpr int kLeastBlocks = 2;
inline constexpr int kMostDim = 256;  // of a head
inline constexpr float kLog2E = 1.44269504088896341F;

// Of one row of the batch, as kernels/attention/head_group.h has it.
struct Positions {
  int queries = 0;
  int keys = 0;
  int window = 0;  // 0: none
  int first_query = 0;
  int first_key = 0;
  bool earlier = false;  // the keys are of an earlier run: all of them precede all queries
  const std::int32_t* starts_BT = nullptr;
};

// A probability's number is ((head of the step) row + query) width + key.
struct KeptNumbers {
  std::uint64_t key = 0;
  std::uint32_t dropped = 0;
  float scale = 1.0F;
  std::int64_t first_head = 0;  // of the step
  std::int64_t all_heads = 0;   // of a sample
  std::int64_t row = 0;
  std::int64_t width = 0;
};

struct AttentionProblem {
  int batch = 0;
  int heads = 0;
  int kv_heads = 0;
  int dim = 0;
  float scale = 0.0F;  // of a score
  float power = 0.0F;  // the same to the base 2: read where it stands, it takes no register
  // A score s becomes outer tanh(s inner), in the unit before its scaling; outer 0: it stays.
  float inner = 0.0F;
  float outer = 0.0F;
  bool wide = false;  // rows may be moved by 16 bytes
  Positions positions;
  KeptNumbers kept;
};

inline float score_scale_of(float scale, std::int64_t dim) {
  return scale > 0.0F ? scale : 1.0F / std::sqrt(static_cast<float>(dim));
}

inline AttentionProblem problem_of(const AttentionShape& shape) {
  const RunsOfRow& runs = shape.runs;
  const std::int64_t tokens = shape.batch.seq_len;
  const std::int64_t row = runs.row > 0 ? runs.row : tokens;
  constexpr std::int64_t kMostTokens = 1 << 30;
  FM_CHECK(shape.head_dim <= kMostDim && row <= kMostTokens,
           "attention of a device: a head of at most ", kMostDim, " and a row of at most ",
           kMostTokens, " tokens (head_dim=", shape.head_dim, ", row=", row, ")");
  const std::int64_t all_heads = shape.all_heads > 0 ? shape.all_heads : shape.heads;
  const Positions positions{.queries = static_cast<int>(tokens),
                            .keys = static_cast<int>(runs.keys > 0 ? runs.keys : tokens),
                            .window = static_cast<int>(shape.window < row ? shape.window : 0),
                            .first_query = static_cast<int>(runs.first_query),
                            .first_key = static_cast<int>(runs.first_key),
                            .earlier = runs.keys > 0,
                            .starts_BT = shape.starts_BT};
  const KeptNumbers kept{.key = shape.dropout.key,
                         .dropped = shape.dropout.dropped,
                         .scale = shape.dropout.scale,
                         .first_head = shape.first_sample * all_heads + shape.first_head,
                         .all_heads = all_heads,
                         .row = row,
                         .width = core::ceil_div(row, kDropoutGroup) * kDropoutGroup};
  const float scale = score_scale_of(shape.scale, shape.head_dim);
  const bool capped = shape.softcap > 0.0F;
  return {.batch = static_cast<int>(shape.batch.batch),
          .heads = static_cast<int>(shape.heads),
          .kv_heads = static_cast<int>(shape.kv_heads),
          .dim = static_cast<int>(shape.head_dim),
          .scale = scale,
          .power = scale * kLog2E,
          .inner = capped ? scale / shape.softcap : 0.0F,
          .outer = capped ? shape.softcap / scale : 0.0F,
          .positions = positions,
          .kept = kept};
}

// Calls run(std::integral_constant<int, d>, std::bool_constant<whether there is a softcap>). With a
// softcap kernels are made for two widths only, without it for those of with_dim(dim, run of d).
template <class WithDim, class Run>
void with_kernel(const AttentionProblem& problem, const WithDim& with_dim, const Run& run) {
  if (problem.outer == 0.0F) {
    return with_dim(problem.dim, [&](auto dim) { run(dim, std::false_type()); });
  }
  if (problem.dim <= 128) return run(std::integral_constant<int, 128>(), std::true_type());
  run(std::integral_constant<int, kMostDim>(), std::true_type());
}

// What every device that the kernels are made for gives a block.
template <class Memory>
constexpr std::size_t shared_bytes_of() {
  static_assert(sizeof(Memory) <= 99 * 1024);
  return sizeof(Memory);
}

// A grid of one axis.
inline dim3 grid_of(std::int64_t blocks) {
  FM_CHECK(blocks > 0 && blocks <= std::numeric_limits<std::int32_t>::max(),
           "the blocks of a kernel (blocks=", blocks, ")");
  return {static_cast<unsigned>(blocks), 1, 1};
}

// What a score is before its scaling, and its derivative by what it was; kCapped: with a softcap.
struct CappedScore {
  float score;
  float slope;
};
template <bool kCapped>
__device__ __forceinline__ CappedScore capped_score(const AttentionProblem& problem, float score) {
  if constexpr (!kCapped) return {score, 1.0F};
  const float share = tanhf(score * problem.inner);
  return {problem.outer * share, 1.0F - share * share};
}
__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x % 32); }

// Which keys a query sees.

// The first; beyond the last: it sees none. It never falls from a query to the next.
__device__ __forceinline__ int first_seen(const Positions& at, int row, int query) {
  int first = 0;
  if (at.starts_BT != nullptr) first = at.starts_BT[std::int64_t{row} * at.queries + query];
  if (at.window > 0) first = max(first, at.first_query + query + 1 - at.window);
  return max(first - at.first_key, 0);
}
__device__ __forceinline__ int seen_end(const Positions& at, int query) {
  return at.earlier ? at.keys : query + 1;
}

// The keys of a query that may not exist; then there are none.
struct Seen {
  int begin;
  int end;
};
__device__ __forceinline__ Seen seen_of(const Positions& at, int row, int query) {
  if (query >= at.queries) return {first_seen(at, row, at.queries - 1), 0};
  return {first_seen(at, row, query), seen_end(at, query)};
}

// Tiles of keys begin at whole groups of the dropout's numbers, which may be before the first key:
// tile i begins with key i width - lead.
__device__ __forceinline__ int key_lead(const Positions& at) {
  return at.first_key % static_cast<int>(kDropoutGroup);
}

// Tiles of some rows.
struct TileRange {
  int begin;
  int end;
};
// That hold keys which one of the queries `first` .. `last` sees.
__device__ __forceinline__ TileRange key_tiles(const Positions& at, int row, int first, int last,
                                               int width) {
  const int lead = key_lead(at);
  return {(first_seen(at, row, first) + lead) / width,
          (seen_end(at, last) + lead + width - 1) / width};
}

}  // namespace fm::kernels::cuda
