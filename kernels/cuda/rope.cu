// Rotary position embedding (kernels/pointwise/rope.h).
#include <algorithm>

#include "kernels/cuda/table.h"
#include "kernels/cuda/walk.h"

namespace fm::kernels::cuda {
namespace {

struct FillTable {
  const float* inv_freq;
  std::int64_t frequencies;
  float* cosines;
  float* sines;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const std::int64_t position = at / frequencies;
    const float angle = inv_freq[at - position * frequencies] * static_cast<float>(position);
    cosines[at] = static_cast<float>(cos(static_cast<double>(angle)));
    sines[at] = static_cast<float>(sin(static_cast<double>(angle)));
  }
};

void rope_table(const core::Work& work, std::span<const float> inv_freq, std::int64_t positions,
                float* cos, float* sin) {
  const std::int64_t frequencies = std::ssize(inv_freq);
  walk<1>(work, "rope_table", positions * frequencies, false,
          FillTable{inv_freq.data(), frequencies, cos, sin});
}

// kPairs neighbouring pairs of a head, which begin at element i.
template <class T, RopePairs kLayout, int kPairs>
struct Pairs;
template <class T, int kPairs>
struct Pairs<T, RopePairs::kHalves, kPairs> {
  Pack<T, kPairs> first, second;
  __device__ void load_from(const T* head, std::int64_t half, std::int64_t i) {
    first = load<kPairs>(head + i);
    second = load<kPairs>(head + half + i);
  }
  __device__ void store_to(T* head, std::int64_t half, std::int64_t i) const {
    store(head + i, first);
    store(head + half + i, second);
  }
  __device__ T& a(int pair) { return first.at[pair]; }
  __device__ T& b(int pair) { return second.at[pair]; }
};
template <class T, int kPairs>
struct Pairs<T, RopePairs::kNeighbours, kPairs> {
  Pack<T, 2 * kPairs> both;
  __device__ void load_from(const T* head, std::int64_t /*half*/, std::int64_t i) {
    both = load<2 * kPairs>(head + 2 * i);
  }
  __device__ void store_to(T* head, std::int64_t /*half*/, std::int64_t i) const {
    store(head + 2 * i, both);
  }
  __device__ T& a(int pair) { return both.at[2 * pair]; }
  __device__ T& b(int pair) { return both.at[2 * pair + 1]; }
};

// Threads of a block are [tokens, heads, parts of a head]. Each keeps the angles of its part of a
// token for all heads that it turns, kAhead of which are loaded before the first is stored.
// `direction`: 1, or -1 for the negative angle.
constexpr int kRopeThreads = 256;
constexpr int kAhead = 4;

template <class T, RopePairs kLayout, int kPairs>
__device__ void turn_heads(const RopeTable& table, std::int64_t position, float direction,
                           std::int64_t i, std::int64_t heads, T* x) {
  const auto cosines = load<kPairs>(table.cos + position * table.half_dim + i);
  const auto sines = load<kPairs>(table.sin + position * table.half_dim + i);
  const std::int64_t step = blockDim.y;
  for (std::int64_t first = threadIdx.y; first < heads; first += kAhead * step) {
    Pairs<T, kLayout, kPairs> pairs[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t head = first + k * step;
      if (head < heads) pairs[k].load_from(x + head * table.head_dim, table.half_dim, i);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t head = first + k * step;
      if (head >= heads) continue;
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float angle_sin = sines.at[j] * direction;
        const float a = widened(pairs[k].a(j));
        const float b = widened(pairs[k].b(j));
        pairs[k].a(j) = narrowed<T>(a * cosines.at[j] - b * angle_sin);
        pairs[k].b(j) = narrowed<T>(b * cosines.at[j] + a * angle_sin);
      }
      pairs[k].store_to(x + head * table.head_dim, table.half_dim, i);
    }
  }
}

template <class T, RopePairs kLayout, int kPairs>
__global__ void __launch_bounds__(kRopeThreads)
    rotate_tokens(RopeTable table, std::int64_t batch, std::int64_t seq_len, float direction,
                  std::int64_t heads, T* x) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.z + threadIdx.z;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.z;
  for (std::int64_t row = blockIdx.y; row < batch; row += gridDim.y) {
    for (std::int64_t position = first; position < seq_len; position += step) {
      T* const token = x + (row * seq_len + position) * heads * table.head_dim;
      for (std::int64_t i = std::int64_t{threadIdx.x} * kPairs; i < table.half_dim;
           i += std::int64_t{blockDim.x} * kPairs) {
        turn_heads<T, kLayout, kPairs>(table, position, direction, i, heads, token);
      }
    }
  }
}

template <class T, RopePairs kLayout, int kPairs>
void rotate_by(const core::Work& work, const RopeTable& table, core::BatchShape shape,
               float direction, std::int64_t heads, T* x) {
  constexpr std::int64_t kThreads = kRopeThreads;
  constexpr std::int64_t kMostTokens = 64;  // blockDim.z
  constexpr std::int64_t kMostRows = 65535;
  const std::int64_t parts = std::min(table.half_dim / kPairs, kThreads);
  const std::int64_t head_threads = std::min(core::ceil_div(heads, kAhead), kThreads / parts);
  const std::int64_t tokens =
      std::min({kThreads / (parts * head_threads), kMostTokens, shape.seq_len});
  const std::int64_t blocks = core::ceil_div(shape.seq_len, tokens);
  const dim3 block = {static_cast<unsigned>(parts), static_cast<unsigned>(head_threads),
                      static_cast<unsigned>(tokens)};
  const dim3 grid = {walk_blocks(work, blocks, 1),
                     static_cast<unsigned>(std::min(shape.batch, kMostRows)), 1};
  launch(work, "rope", {grid, block}, rotate_tokens<T, kLayout, kPairs>, table, shape.batch,
         shape.seq_len, direction, heads, x);
}

template <class T, RopePairs kLayout>
void rotate_in(const core::Work& work, const RopeTable& table, core::BatchShape shape,
               float direction, std::int64_t heads, T* x) {
  constexpr int kWide = 16 / sizeof(T);
  const bool wide = table.half_dim % kWide == 0 && table.head_dim % kWide == 0 &&
                    aligned(x, table.cos, table.sin);
  if (wide) {
    rotate_by<T, kLayout, kWide>(work, table, shape, direction, heads, x);
  } else {
    rotate_by<T, kLayout, 1>(work, table, shape, direction, heads, x);
  }
}

template <class T>
void rotate(const core::Work& work, const RopeTable& table, core::BatchShape shape, float direction,
            std::int64_t heads, T* x) {
  if (shape.tokens() * heads * table.half_dim == 0) return;
  switch (table.pairs) {
    case RopePairs::kHalves:
      return rotate_in<T, RopePairs::kHalves>(work, table, shape, direction, heads, x);
    case RopePairs::kNeighbours:
      return rotate_in<T, RopePairs::kNeighbours>(work, table, shape, direction, heads, x);
  }
}

template <class T>
void rope(const core::Work& work, const RopeTable& table, core::BatchShape shape,
          std::int64_t heads, T* x) {
  rotate(work, table, shape, 1.0F, heads, x);
}

template <class T>
void rope_inverse(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                  std::int64_t heads, T* x) {
  rotate(work, table, shape, -1.0F, heads, x);
}

template <class Elements>
void fill_elements_of(Elements& elements) {
  elements.rope = rope;
  elements.rope_inverse = rope_inverse;
}

}  // namespace

void fill_rope(DeviceKernels& table) {
  table.rope_table = rope_table;
  fill_elements_of(table.fp32);
  fill_elements_of(table.bf16);
  fill_elements_of(table.fp16);
}

}  // namespace fm::kernels::cuda
