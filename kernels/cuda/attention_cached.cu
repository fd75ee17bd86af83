// Attention of new tokens over a cache: a block per new token and head, whose threads form teams.
// A team reads a key and a value at a time, 8 columns per thread, and has a softmax of its own; the
// block merges them in the order of the teams.
#include "kernels/attention/attention_cached.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/table.h"

namespace fm::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kCachedThreads = 256;
constexpr int kColumns = 8;    // of a thread
constexpr int kKeysAhead = 4;  // whose loads are under way together
using Columns = Pack<float, kColumns>;

template <int kTeam>
struct CachedMemory {
  static constexpr int kTeams = kCachedThreads / kTeam;
  float sums[kTeams][kTeam * kColumns];
  float largest[kTeams];
  float total[kTeams];
};

struct CachedProblem {
  int heads = 0;
  int kv_heads = 0;
  int dim = 0;
  bool wide = false;
  float power = 0.0F;  // of a score, to the base 2
  float inner = 0.0F;  // as in AttentionProblem
  float outer = 0.0F;
  std::int64_t window = 0;
  std::int64_t position = 0;
  std::int64_t capacity = 0;
};

// What a team has summed; all of its threads know largest and total.
struct TeamSoftmax {
  float largest;
  float total;
  Columns sums;
};

// The thread's columns of a row, zero beyond its end or where there is no row.
template <class T>
__device__ __forceinline__ Columns load_columns(const T* row, int column, int dim, bool wide,
                                                bool exists) {
  Columns to = {};
  if (wide) {
    if (!exists || column >= dim) return to;
    const auto from = load<kColumns>(row + column);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) to.at[i] = widened(from.at[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (exists && column + i < dim) to.at[i] = widened(row[column + i]);
    }
  }
  return to;
}

// kKeysAhead keys and their values; those whose score is -infinity do not exist.
template <int kTeam>
__device__ __forceinline__ void attend(const CachedProblem& problem, const Columns& q,
                                       const Columns (&k)[kKeysAhead],
                                       const Columns (&v)[kKeysAhead],
                                       const bool (&exists)[kKeysAhead], TeamSoftmax& softmax) {
  const float power = problem.power;
  float scores[kKeysAhead];
  float largest = softmax.largest;
#pragma unroll
  for (int j = 0; j < kKeysAhead; ++j) {
    scores[j] = 0.0F;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) scores[j] += q.at[i] * k[j].at[i];
  }
#pragma unroll
  for (int by = 1; by < kTeam; by *= 2) {
#pragma unroll
    for (int j = 0; j < kKeysAhead; ++j) {
      scores[j] += __shfl_xor_sync(0xffffffffU, scores[j], by);
    }
  }
  if (problem.outer > 0.0F) {
#pragma unroll
    for (int j = 0; j < kKeysAhead; ++j) {
      scores[j] = problem.outer * tanhf(scores[j] * problem.inner);
    }
  }
#pragma unroll
  for (int j = 0; j < kKeysAhead; ++j) {
    if (!exists[j]) scores[j] = -kInfinity;
    largest = max(largest, scores[j]);
  }
  const float shift = largest == -kInfinity ? 0.0F : largest;
  const float factor = exp2f_fast((softmax.largest - shift) * power);
  softmax.largest = largest;
  softmax.total *= factor;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) softmax.sums.at[i] *= factor;
#pragma unroll
  for (int j = 0; j < kKeysAhead; ++j) {
    const float prob = exp2f_fast((scores[j] - shift) * power);
    softmax.total += prob;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) softmax.sums.at[i] += prob * v[j].at[i];
  }
}

template <class T, int kTeam>
__global__ void __launch_bounds__(kCachedThreads)
    attention_cached_rows(CachedProblem problem, const T* cache, const T* q_THd, T* out_THd) {
  using Memory = CachedMemory<kTeam>;
  auto& memory = shared_memory<Memory>();
  const auto thread = static_cast<int>(threadIdx.x);
  const int team = thread / kTeam;
  const int column = thread % kTeam * kColumns;
  const int head = static_cast<int>(blockIdx.x) % problem.heads;
  const std::int64_t seen = problem.position + blockIdx.x / problem.heads + 1;
  const std::int64_t begin =
      problem.window > 0 ? max(seen - problem.window, std::int64_t{0}) : std::int64_t{0};
  const std::int64_t stride = std::int64_t{problem.kv_heads} * problem.dim;
  const T* const keys = cache + head / (problem.heads / problem.kv_heads) * problem.dim;
  const T* const values = keys + problem.capacity * stride;
  const std::int64_t row = std::int64_t{blockIdx.x} * problem.dim;
  const Columns q = load_columns(q_THd + row, column, problem.dim, problem.wide, true);

  TeamSoftmax softmax = {-kInfinity, 0.0F, {}};
  // All threads of a warp take part in an exchange: all teams walk equally often.
  for (std::int64_t first = begin; first < seen; first += kKeysAhead * Memory::kTeams) {
    Columns k[kKeysAhead];
    Columns v[kKeysAhead];
    bool exists[kKeysAhead];
#pragma unroll
    for (int j = 0; j < kKeysAhead; ++j) {
      const std::int64_t key = first + j * Memory::kTeams + team;
      exists[j] = key < seen;
      const std::int64_t at = exists[j] ? key * stride : 0;
      k[j] = load_columns(keys + at, column, problem.dim, problem.wide, exists[j]);
      v[j] = load_columns(values + at, column, problem.dim, problem.wide, exists[j]);
    }
    attend<kTeam>(problem, q, k, v, exists, softmax);
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) memory.sums[team][column + i] = softmax.sums.at[i];
  if (column == 0) {
    memory.largest[team] = softmax.largest;
    memory.total[team] = softmax.total;
  }
  __syncthreads();
  float largest = -kInfinity;
  for (int other = 0; other < Memory::kTeams; ++other) {
    largest = max(largest, memory.largest[other]);
  }
  for (int at = thread; at < problem.dim; at += kCachedThreads) {
    float total = 0.0F;
    float sum = 0.0F;
    for (int other = 0; other < Memory::kTeams; ++other) {
      const float factor = exp2f_fast((memory.largest[other] - largest) * problem.power);
      total += memory.total[other] * factor;
      sum += memory.sums[other][at] * factor;
    }
    out_THd[row + at] = narrowed<T>(sum / total);
  }
}

template <class T>
void attention_cached(core::Work& work, const CachedShape& shape, const CachedSequence& sequence,
                      const T* q_THd, T* out_THd) {
  if (sequence.count == 0) return;
  FM_CHECK(shape.head_dim <= kMostDim, "attention of a device: a head of at most ", kMostDim,
           " (head_dim=", shape.head_dim, ")");
  const auto* const cache = static_cast<const T*>(sequence.cache);
  const float scale = score_scale_of(shape.scale, shape.head_dim);
  const bool capped = shape.softcap > 0.0F;
  const CachedProblem problem{
      .heads = static_cast<int>(shape.heads),
      .kv_heads = static_cast<int>(shape.kv_heads),
      .dim = static_cast<int>(shape.head_dim),
      .wide = shape.head_dim % kColumns == 0 && aligned(cache, q_THd, out_THd),
      .power = shape.scale > 0.0F ? kLog2E * scale
                                  : kLog2E / std::sqrt(static_cast<float>(shape.head_dim)),
      .inner = capped ? scale / shape.softcap : 0.0F,
      .outer = capped ? shape.softcap / scale : 0.0F,
      .window = shape.window,
      .position = sequence.position,
      .capacity = sequence.capacity};
  const dim3 grid = grid_of(sequence.count * shape.heads);
  const auto run = [&](auto team) {
    launch(work, "attention_cached",
           {grid, {kCachedThreads, 1, 1}, shared_bytes_of<CachedMemory<team()>>()},
           attention_cached_rows<T, team()>, problem, cache, q_THd, out_THd);
  };
  if (problem.dim <= 8 * kColumns) return run(std::integral_constant<int, 8>());
  if (problem.dim <= 16 * kColumns) return run(std::integral_constant<int, 16>());
  run(std::integral_constant<int, 32>());
}

}  // namespace

void fill_attention_cached(DeviceKernels& table) {
  table.products.fp32.attention_cached = attention_cached<float>;
  table.products.bf16.attention_cached = attention_cached<core::Bf16>;
  table.products.fp16.attention_cached = attention_cached<core::F16>;
}

}  // namespace fm::kernels::cuda
