// Attention of fp32 without tensor cores, forward and backward: a block owns 16 rows, 4 per warp,
// and walks over tiles of 32 others; in a product of rows each lane has one of these.
#include "kernels/cuda/attention_backward.h"
#include "kernels/cuda/attention_numbers.h"
#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/table.h"

namespace fm::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kWarps = kAttentionThreads / 32;
constexpr int kWarpRows = 4;
constexpr int kBlockRows = kWarps * kWarpRows;
constexpr int kWalkedRows = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

// Two arrays of rows each: queries and dout, or keys and values. Walked rows lie 16 bytes further
// apart than they are long, so that lanes which read 16 bytes of each meet different banks.
template <int kDim>
struct alignas(16) ScalarMemory {
  float own[2][kBlockRows][kDim];
  float walked[2][kWalkedRows][kDim + 4];
  float weights[kWarps][kWalkedRows][kWarpRows];
};

// Sums of a warp's rows: lane l has columns l, l + 32, ...
template <int kDim>
using Sums = float[kWarpRows][kDim / 32];

// Calls run(std::integral_constant<int, d>) for the smallest d that a kernel is made for.
template <class Run>
void with_scalar_dim(int dim, const Run& run) {
  if (dim <= 32) return run(std::integral_constant<int, 32>());
  if (dim <= 64) return run(std::integral_constant<int, 64>());
  if (dim <= 128) return run(std::integral_constant<int, 128>());
  return run(std::integral_constant<int, kMostDim>());
}

// Rows `first` .. of the array, zero where there are none and beyond the head's width; complete
// after async_wait and a barrier.
template <int kDim, int kRows, int kStride>
__device__ void load_rows(float (&to)[kRows][kStride], const HeadRows<const float>& from,
                          int first) {
  const int step = from.wide ? 4 : 1;
  for (int i = static_cast<int>(threadIdx.x) * step; i < kRows * kDim;
       i += kAttentionThreads * step) {
    const int row = first + i / kDim;
    const int column = i % kDim;
    float* const shared = &to[i / kDim][column];
    const bool exists = row < from.count && column < from.dim;
    const float* const global = from.data + (exists ? row * from.stride + column : 0);
    if (!from.wide) {
      *shared = exists ? *global : 0.0F;
    } else if (exists) {
      async_copy_16(shared, global);
    } else {
      *reinterpret_cast<float4*>(shared) = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
  }
}

// Of the warp's own rows and the walked row of this lane.
template <int kDim>
__device__ __forceinline__ void multiply_rows(float (&to)[kWarpRows],
                                              const ScalarMemory<kDim>& memory, int array) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) to[r] = 0.0F;
  const float* const walked = memory.walked[array][lane_of_thread()];
#pragma unroll 4
  for (int column = 0; column < kDim; column += 4) {
    const float4 a = *reinterpret_cast<const float4*>(walked + column);
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      const float4 b =
          *reinterpret_cast<const float4*>(&memory.own[array][warp * kWarpRows + r][column]);
      to[r] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
  }
}

// sums += weights (of the lane's walked row, per own row) times all walked rows.
template <int kDim>
__device__ __forceinline__ void add_walked(Sums<kDim>& sums, const float (&weights)[kWarpRows],
                                           ScalarMemory<kDim>& memory, int array) {
  const int lane = lane_of_thread();
  auto& shared = memory.weights[threadIdx.x / 32];
  __syncwarp();
  *reinterpret_cast<float4*>(shared[lane]) =
      make_float4(weights[0], weights[1], weights[2], weights[3]);
  __syncwarp();
#pragma unroll 4
  for (int walked = 0; walked < kWalkedRows; ++walked) {
    const float4 weight = *reinterpret_cast<const float4*>(shared[walked]);
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) {
      const float value = memory.walked[array][walked][32 * i + lane];
      sums[0][i] += weight.x * value;
      sums[1][i] += weight.y * value;
      sums[2][i] += weight.z * value;
      sums[3][i] += weight.w * value;
    }
  }
}

// Rows from `first` on, the warp's own, times a factor each.
template <int kDim>
__device__ __forceinline__ void store_rows(const Sums<kDim>& sums, const float (&factor)[kWarpRows],
                                           const HeadRows<float>& to, int first) {
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    if (first + r >= to.count) continue;
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) {
      const int column = 32 * i + lane_of_thread();
      if (column < to.dim) to.data[(first + r) * to.stride + column] = sums[r][i] * factor[r];
    }
  }
}

// What dropout leaves of 1.
__device__ __forceinline__ float left_of(const KeptNumbers& kept, std::uint64_t number) {
  if (kept.dropped == 0) return 1.0F;
  const PhiloxWords words = philox(kept.key, number / 64 * 16 + number % 16);
  const auto which = static_cast<int>(number / 16 % 4);
  const unsigned word = which == 0   ? words.at[0]
                        : which == 1 ? words.at[1]
                        : which == 2 ? words.at[2]
                                     : words.at[3];
  return word >= kept.dropped ? kept.scale : 0.0F;
}
__device__ __forceinline__ float left_of(const AttentionProblem& problem, int row, int head,
                                         int query, int key) {
  return left_of(problem.kept, first_number(problem, row, head, query) +
                                   static_cast<std::uint64_t>(problem.positions.first_key + key));
}

__device__ __forceinline__ float warp_largest(float value) {
  for (int by = 1; by < 32; by *= 2) value = max(value, __shfl_xor_sync(kAllLanes, value, by));
  return value;
}
__device__ __forceinline__ float warp_sum(float value) {
  for (int by = 1; by < 32; by *= 2) value += __shfl_xor_sync(kAllLanes, value, by);
  return value;
}

// Scores become capped ones, and `slopes` their derivatives, where there is a softcap.
template <bool kCapped>
__device__ __forceinline__ void cap(const AttentionProblem& problem, float (&scores)[kWarpRows],
                                    float (&slopes)[kWarpRows]) {
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    const CappedScore capped = capped_score<kCapped>(problem, scores[r]);
    scores[r] = capped.score;
    slopes[r] = capped.slope;
  }
}

// The first key of the first tile that a block's queries see, and the end of their keys.
__device__ __forceinline__ Seen walked_keys(const Positions& positions, const QueryTile& at) {
  const int last = min(at.first + kBlockRows, positions.queries) - 1;
  const int begin = first_seen(positions, at.row, at.first);
  return {begin / kWalkedRows * kWalkedRows, seen_end(positions, last)};
}

// Loads the tiles of two arrays that begin at row `first`, when the tiles before are done with.
template <int kDim>
__device__ __forceinline__ void next_tiles(ScalarMemory<kDim>& memory, bool is_first,
                                           const HeadRows<const float>& a,
                                           const HeadRows<const float>& b, int first) {
  if (!is_first) __syncthreads();
  load_rows<kDim>(memory.walked[0], a, first);
  load_rows<kDim>(memory.walked[1], b, first);
  async_commit();
  async_wait<0>();
  __syncthreads();
}

template <int kDim, bool kCapped>
__global__ void __launch_bounds__(kAttentionThreads, kLeastBlocks)
    attention_forward_rows(AttentionProblem problem, AttentionForward<float> arrays) {
  auto& memory = shared_memory<ScalarMemory<kDim>>();
  const Positions& positions = problem.positions;
  const QueryTile at = query_tile<kBlockRows>(problem, 0);
  const int lane = lane_of_thread();
  const int own = at.first + static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const int kv_head = at.head / (problem.heads / problem.kv_heads);
  const auto k = key_rows(problem, arrays.k, at.row, kv_head);
  const auto v = key_rows(problem, arrays.v, at.row, kv_head);
  const float power = problem.power;
  Seen seen[kWarpRows];
  float largest[kWarpRows];
  float total[kWarpRows] = {};  // of this lane's keys
  Sums<kDim> sums = {};
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    seen[r] = seen_of(positions, at.row, own + r);
    largest[r] = -kInfinity;
  }
  const Seen walked = walked_keys(positions, at);
  load_rows<kDim>(memory.own[0], query_rows(problem, arrays.q, at.row, at.head), at.first);
  for (int first = walked.begin; first < walked.end; first += kWalkedRows) {
    next_tiles(memory, first == walked.begin, k, v, first);
    const int key = first + lane;
    float probs[kWarpRows];
    float slopes[kWarpRows];
    multiply_rows(probs, memory, 0);
    cap<kCapped>(problem, probs, slopes);
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      const bool sees = key >= seen[r].begin && key < seen[r].end;
      const float score = sees ? probs[r] : -kInfinity;
      const float now = max(largest[r], warp_largest(score));
      const float shift = now == -kInfinity ? 0.0F : now;  // all keys so far are hidden
      const float factor = exp2f_fast((largest[r] - shift) * power);
      const float prob = exp2f_fast((score - shift) * power);
      largest[r] = now;
      total[r] = total[r] * factor + prob;
      probs[r] = prob * left_of(problem, at.row, at.head, own + r, key);
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) sums[r][i] *= factor;
    }
    add_walked<kDim>(sums, probs, memory, 1);
  }
  float factor[kWarpRows];
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    const float sum = warp_sum(total[r]);
    factor[r] = sum > 0.0F ? 1.0F / sum : 0.0F;
    if (lane == 0 && own + r < positions.queries) {
      arrays.logsumexp[std::int64_t{at.all} * positions.queries + own + r] =
          largest[r] + log2f(sum) / power;
    }
  }
  store_rows<kDim>(sums, factor, query_rows(problem, arrays.out, at.row, at.head), own);
}

// A query's numbers of backward; none of a query that does not exist.
struct QueryNumbers {
  Seen seen;
  float logsumexp;
  float dot;
};
__device__ __forceinline__ QueryNumbers numbers_of(const AttentionProblem& problem, int row,
                                                   int head, int query, const float* logsumexp,
                                                   const Dots& dots) {
  const Seen seen = seen_of(problem.positions, row, query);
  if (query >= problem.positions.queries) return {seen, 0.0F, 0.0F};
  const std::int64_t at =
      (std::int64_t{row} * problem.heads + head) * problem.positions.queries + query;
  return {seen, logsumexp[at], dots.values[at - dots.first_row]};
}

__device__ __forceinline__ float probability(const AttentionProblem& problem, float score, int key,
                                             const QueryNumbers& query) {
  if (key < query.seen.begin || key >= query.seen.end) return 0.0F;
  return exp2f_fast((score - query.logsumexp) * problem.power);
}

template <int kDim, bool kCapped>
__global__ void __launch_bounds__(kAttentionThreads, kLeastBlocks)
    attention_backward_query_rows(AttentionProblem problem, AttentionBackward<float> arrays,
                                  Dots dots) {
  auto& memory = shared_memory<ScalarMemory<kDim>>();
  const QueryTile at = query_tile<kBlockRows>(problem, static_cast<int>(dots.first_head));
  const int own = at.first + static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const int kv_head = at.head / (problem.heads / problem.kv_heads);
  const auto k = key_rows(problem, arrays.k, at.row, kv_head);
  const auto v = key_rows(problem, arrays.v, at.row, kv_head);
  QueryNumbers queries[kWarpRows];
  Sums<kDim> sums = {};
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
    queries[r] = numbers_of(problem, at.row, at.head, own + r, arrays.logsumexp, dots);
  }
  const Seen walked = walked_keys(problem.positions, at);
  load_rows<kDim>(memory.own[0], query_rows(problem, arrays.q, at.row, at.head), at.first);
  load_rows<kDim>(memory.own[1], query_rows(problem, arrays.dout, at.row, at.head), at.first);
  for (int first = walked.begin; first < walked.end; first += kWalkedRows) {
    next_tiles(memory, first == walked.begin, k, v, first);
    const int key = first + lane_of_thread();
    float scores[kWarpRows];
    float dprobs[kWarpRows];
    float slopes[kWarpRows];
    multiply_rows(scores, memory, 0);
    cap<kCapped>(problem, scores, slopes);
    multiply_rows(dprobs, memory, 1);
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      const float dprob = dprobs[r] * left_of(problem, at.row, at.head, own + r, key);
      scores[r] =
          probability(problem, scores[r], key, queries[r]) * (dprob - queries[r].dot) * slopes[r];
    }
    add_walked<kDim>(sums, scores, memory, 0);
  }
  const float scale = problem.scale;
  const float factor[kWarpRows] = {scale, scale, scale, scale};
  store_rows<kDim>(sums, factor, query_rows(problem, arrays.dq, at.row, at.head), own);
}

template <int kDim, bool kCapped>
__global__ void __launch_bounds__(kAttentionThreads, kLeastBlocks)
    attention_backward_key_rows(AttentionProblem problem, AttentionBackward<float> arrays,
                                Dots dots) {
  auto& memory = shared_memory<ScalarMemory<kDim>>();
  const Positions& positions = problem.positions;
  const int group = problem.heads / problem.kv_heads;
  const std::int64_t groups = dots.heads / group;
  const auto all = static_cast<int>(dots.first_head / group + blockIdx.x % groups);
  const int row = all / problem.kv_heads;
  const int kv_head = all % problem.kv_heads;
  const int first_key = static_cast<int>(blockIdx.x / groups) * kBlockRows;
  const int own = first_key + static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const int begin = positions.earlier ? 0 : first_key / kWalkedRows * kWalkedRows;
  const int end = seeing_end(positions, row, first_key, first_key + kBlockRows);
  Sums<kDim> dk = {};
  Sums<kDim> dv = {};
  load_rows<kDim>(memory.own[0], key_rows(problem, arrays.k, row, kv_head), first_key);
  load_rows<kDim>(memory.own[1], key_rows(problem, arrays.v, row, kv_head), first_key);
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const auto q = query_rows(problem, arrays.q, row, head);
    const auto dout = query_rows(problem, arrays.dout, row, head);
    for (int first = begin; first < end; first += kWalkedRows) {
      next_tiles(memory, first == begin && head == kv_head * group, q, dout, first);
      const int query = first + lane_of_thread();
      const QueryNumbers numbers = numbers_of(problem, row, head, query, arrays.logsumexp, dots);
      float scores[kWarpRows];
      float dprobs[kWarpRows];
      float slopes[kWarpRows];
      multiply_rows(scores, memory, 0);
      cap<kCapped>(problem, scores, slopes);
      multiply_rows(dprobs, memory, 1);
#pragma unroll
      for (int r = 0; r < kWarpRows; ++r) {
        const float left = left_of(problem, row, head, query, own + r);
        const float prob = probability(problem, scores[r], own + r, numbers);
        scores[r] = prob * left;
        dprobs[r] = prob * (dprobs[r] * left - numbers.dot) * slopes[r];
      }
      add_walked<kDim>(dv, scores, memory, 1);
      add_walked<kDim>(dk, dprobs, memory, 0);
    }
  }
  const float scale = problem.scale;
  const float of_keys[kWarpRows] = {scale, scale, scale, scale};
  const float of_values[kWarpRows] = {1.0F, 1.0F, 1.0F, 1.0F};
  store_rows<kDim>(dk, of_keys, key_rows(problem, arrays.dk, row, kv_head), own);
  store_rows<kDim>(dv, of_values, key_rows(problem, arrays.dv, row, kv_head), own);
}

constexpr dim3 kThreads = {kAttentionThreads, 1, 1};

template <class Run>
void with_form(const AttentionProblem& problem, const Run& run) {
  const auto with_dim = [](int dim, const auto& run_dim) { with_scalar_dim(dim, run_dim); };
  with_kernel(problem, with_dim, run);
}

void attention_forward(core::Work& work, const AttentionShape& shape,
                       const AttentionForward<float>& arrays) {
  AttentionProblem problem = problem_of(shape);
  if (problem.batch == 0 || problem.positions.queries == 0) return;
  problem.wide = problem.dim % 4 == 0 && aligned(arrays.q, arrays.k, arrays.v, arrays.out);
  const dim3 grid = query_grid<kBlockRows>(problem, std::int64_t{problem.batch} * problem.heads);
  with_form(problem, [&](auto dim, auto capped) {
    launch(work, "attention_forward", {grid, kThreads, shared_bytes_of<ScalarMemory<dim()>>()},
           attention_forward_rows<dim(), capped()>, problem, arrays);
  });
}

void attention_backward(core::Work& work, const AttentionShape& shape,
                        const AttentionBackward<float>& arrays) {
  AttentionProblem problem = problem_of(shape);
  problem.wide = problem.dim % 4 == 0 && aligned(arrays.q, arrays.k, arrays.v, arrays.out,
                                                 arrays.dout, arrays.dq, arrays.dk, arrays.dv);
  const std::int64_t key_tiles = core::ceil_div(problem.positions.keys, kBlockRows);
  for_pieces_of_dots(work, problem, arrays.out, arrays.dout, [&](const Dots& dots) {
    const std::int64_t key_blocks = key_tiles * (dots.heads * problem.kv_heads / problem.heads);
    const dim3 by_queries = query_grid<kBlockRows>(problem, dots.heads);
    with_form(problem, [&](auto dim, auto capped) {
      constexpr std::size_t kShared = shared_bytes_of<ScalarMemory<dim()>>();
      launch(work, "attention_backward_keys", {grid_of(key_blocks), kThreads, kShared},
             attention_backward_key_rows<dim(), capped()>, problem, arrays, dots);
      launch(work, "attention_backward_queries", {by_queries, kThreads, kShared},
             attention_backward_query_rows<dim(), capped()>, problem, arrays, dots);
    });
  });
}

}  // namespace

void fill_attention_scalar(DeviceKernels& table) {
  table.products.fp32.attention_forward = attention_forward;
  table.products.fp32.attention_backward = attention_backward;
}

}  // namespace fm::kernels::cuda
