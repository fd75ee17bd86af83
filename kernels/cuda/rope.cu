// Rotary position embedding (kernels/pointwise/rope.h), in place and while heads move
// (kernels/pointwise/heads.h).
#include <algorithm>

#include "core/check.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk.h"
#include "kernels/pointwise/heads.h"

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

// `direction`: 1, or -1 for the negative angle.
template <class T, RopePairs kLayout, int kPairs>
__device__ void rotate_pairs(Pairs<T, kLayout, kPairs>& pairs, const Pack<float, kPairs>& cosines,
                             const Pack<float, kPairs>& sines, float direction) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const float angle_sin = sines.at[j] * direction;
    const float a = widened(pairs.a(j));
    const float b = widened(pairs.b(j));
    // Said, not left to the compiler: whoever turns, the bits are the same.
    pairs.a(j) = narrowed<T>(fmaf(a, cosines.at[j], -(b * angle_sin)));
    pairs.b(j) = narrowed<T>(fmaf(a, angle_sin, b * cosines.at[j]));
  }
}

// In its document, of token `at` of a row.
__device__ inline std::int64_t position_of(const RopeTable& table, std::int64_t token,
                                           std::int64_t at) {
  return table.starts == nullptr ? at : at - table.starts[token];
}

// Threads of a block are [tokens, heads, parts of a head]. Each keeps the angles of its part of a
// token for all heads that it turns, kAhead of which are loaded before the first is stored.
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
      rotate_pairs(pairs[k], cosines, sines, direction);
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
    for (std::int64_t at = first; at < seq_len; at += step) {
      const std::int64_t index = row * seq_len + at;
      const std::int64_t position = position_of(table, index, at);
      T* const token = x + index * heads * table.head_dim;
      for (std::int64_t i = std::int64_t{threadIdx.x} * kPairs; i < table.half_dim;
           i += std::int64_t{blockDim.x} * kPairs) {
        turn_heads<T, kLayout, kPairs>(table, position, direction, i, heads, token);
      }
    }
  }
}

// For kernels over [tokens, heads, parts of a head].
Launch over_heads(const core::Work& work, core::BatchShape shape, std::int64_t heads,
                  std::int64_t parts) {
  constexpr std::int64_t kThreads = kRopeThreads;
  constexpr std::int64_t kMostTokens = 64;  // blockDim.z
  constexpr std::int64_t kMostRows = 65535;
  parts = std::min(parts, kThreads);
  const std::int64_t head_threads = std::min(core::ceil_div(heads, kAhead), kThreads / parts);
  const std::int64_t tokens =
      std::min({kThreads / (parts * head_threads), kMostTokens, shape.seq_len});
  const std::int64_t blocks = core::ceil_div(shape.seq_len, tokens);
  const dim3 block = {static_cast<unsigned>(parts), static_cast<unsigned>(head_threads),
                      static_cast<unsigned>(tokens)};
  const dim3 grid = {walk_blocks(work, blocks, 1),
                     static_cast<unsigned>(std::min(shape.batch, kMostRows)), 1};
  return {grid, block};
}

template <class T, RopePairs kLayout, int kPairs>
void rotate_by(const core::Work& work, const RopeTable& table, core::BatchShape shape,
               float direction, std::int64_t heads, T* x) {
  launch(work, "rope", over_heads(work, shape, heads, table.half_dim / kPairs),
         rotate_tokens<T, kLayout, kPairs>, table, shape.batch, shape.seq_len, direction, heads, x);
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

// Where a head is among all heads of the tokens, and apart.
template <class T>
struct HeadPlaces {
  T* all;
  T* apart;
  bool rotates;  // a query or a key
};
template <class T>
__device__ HeadPlaces<T> places_of(const HeadGroups& groups, const SplitHeads<T>& at,
                                   std::int64_t token, int head) {
  const int queries = static_cast<int>(groups.queries);
  const int keys = static_cast<int>(groups.keys);
  const int group = head / (queries + 2 * keys);
  const int of_group = head - group * (queries + 2 * keys);
  T* const all = at.all + (token * groups.heads() + head) * groups.head_dim;
  const auto apart = [&](T* base, int width, int index) {
    return base + ((token * groups.groups + group) * width + index) * groups.head_dim;
  };
  if (of_group < queries) return {all, apart(at.q, queries, of_group), true};
  if (of_group < queries + keys) return {all, apart(at.k, keys, of_group - queries), true};
  return {all, apart(at.v, keys, of_group - queries - keys), false};
}

// kJoin: from the arrays apart, by the negative angle. Part `part` has pairs [part * kPairs, ...)
// of what rotates; behind it, and in values, neighbouring elements.
template <class T, RopePairs kLayout, int kPairs, bool kJoin>
__device__ void move_part(const RopeTable& table, const HeadGroups& groups, const SplitHeads<T>& at,
                          std::int64_t token, std::int64_t position, std::int64_t part) {
  const std::int64_t pair = part * kPairs;
  const bool within = pair < table.half_dim;
  Pack<float, kPairs> cosines = {};
  Pack<float, kPairs> sines = {};
  if (within) {
    cosines = load<kPairs>(table.cos + position * table.half_dim + pair);
    sines = load<kPairs>(table.sin + position * table.half_dim + pair);
  }
  const int heads = static_cast<int>(groups.heads());
  const int step = static_cast<int>(blockDim.y);
  for (int first = static_cast<int>(threadIdx.y); first < heads; first += kAhead * step) {
    Pairs<T, kLayout, kPairs> pairs[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int head = first + k * step;
      if (head >= heads) continue;
      const HeadPlaces<T> places = places_of(groups, at, token, head);
      const T* const from = kJoin ? places.apart : places.all;
      if (within && places.rotates) {
        pairs[k].load_from(from, table.half_dim, pair);
      } else {
        pairs[k].load_from(from + 2 * pair, kPairs, 0);
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int head = first + k * step;
      if (head >= heads) continue;
      const HeadPlaces<T> places = places_of(groups, at, token, head);
      T* const to = kJoin ? places.all : places.apart;
      if (within && places.rotates) {
        rotate_pairs(pairs[k], cosines, sines, kJoin ? -1.0F : 1.0F);
        pairs[k].store_to(to, table.half_dim, pair);
      } else {
        pairs[k].store_to(to + 2 * pair, kPairs, 0);
      }
    }
  }
}

template <class T, RopePairs kLayout, int kPairs, bool kJoin>
__global__ void __launch_bounds__(kRopeThreads, 2)
    move_tokens(RopeTable table, HeadGroups groups, std::int64_t batch, std::int64_t seq_len,
                SplitHeads<T> at) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.z + threadIdx.z;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.z;
  const std::int64_t parts = groups.head_dim / (2 * kPairs);
  for (std::int64_t row = blockIdx.y; row < batch; row += gridDim.y) {
    for (std::int64_t in_row = first; in_row < seq_len; in_row += step) {
      const std::int64_t token = row * seq_len + in_row;
      const std::int64_t position = position_of(table, token, in_row);
      for (std::int64_t part = threadIdx.x; part < parts; part += blockDim.x) {
        move_part<T, kLayout, kPairs, kJoin>(table, groups, at, token, position, part);
      }
    }
  }
}

template <bool kJoin, class T>
void move_heads(const core::Work& work, const RopeTable& table, core::BatchShape shape,
                const HeadGroups& groups, const SplitHeads<T>& at) {
  constexpr int kWide = 16 / sizeof(T);
  if (shape.tokens() * groups.heads() * groups.head_dim == 0) return;
  FM_CHECK(groups.head_dim % 2 == 0, "heads of ", groups.head_dim, " elements have no halves");
  const bool wide = table.half_dim % kWide == 0 && groups.head_dim % (2 * kWide) == 0 &&
                    aligned(at.all, at.q, at.k, at.v, table.cos, table.sin);
  const auto move = [&](auto* kernel, int pairs) {
    launch(work, kJoin ? "join_heads" : "split_heads",
           over_heads(work, shape, groups.heads(), groups.head_dim / (2 * pairs)), kernel, table,
           groups, shape.batch, shape.seq_len, at);
  };
  if (table.pairs == RopePairs::kHalves) {
    if (wide) return move(move_tokens<T, RopePairs::kHalves, kWide, kJoin>, kWide);
    return move(move_tokens<T, RopePairs::kHalves, 1, kJoin>, 1);
  }
  if (wide) return move(move_tokens<T, RopePairs::kNeighbours, kWide, kJoin>, kWide);
  move(move_tokens<T, RopePairs::kNeighbours, 1, kJoin>, 1);
}

template <class Elements, class Fused>
void fill_elements_of(Elements& elements, Fused& fused) {
  elements.rope = rope;
  elements.rope_inverse = rope_inverse;
  fused.split_heads = move_heads<false>;
  fused.join_heads = move_heads<true>;
}

}  // namespace

void fill_rope(DeviceKernels& table) {
  table.rope_table = rope_table;
  fill_elements_of(table.fp32, table.fused.fp32);
  fill_elements_of(table.bf16, table.fused.bf16);
  fill_elements_of(table.fp16, table.fused.fp16);
}

}  // namespace fm::kernels::cuda
