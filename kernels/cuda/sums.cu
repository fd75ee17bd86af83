// Sums in the order of this CPU's (kernels/pointwise/sums.h), bit for bit.
#include <array>

#include "core/check.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk.h"

namespace fm::kernels::cuda {
namespace {

constexpr int kWide = 4;

struct Add {
  const float* from;
  float* into;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto a = load<kWidth>(from + at);
    auto b = load<kWidth>(into + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) b.at[i] += a.at[i];
    store(into + at, b);
  }
};

void add(const core::Work& work, std::int64_t count, const float* from, float* into) {
  walk<kWide>(work, "add", count, aligned(from, into), Add{from, into});
}

// 16 threads per block of the norm, which are its lanes; into [count] += from where there is one.
constexpr int kSquareThreads = 256;
__global__ void __launch_bounds__(kSquareThreads, 2)
    square_blocks(std::int64_t count, const float* from, float* values, double* blocks) {
  constexpr int kPerBlock = kSquareThreads / static_cast<int>(kLanes);
  const int lane = static_cast<int>(threadIdx.x) % static_cast<int>(kLanes);
  const std::int64_t all = norm_blocks(count);
  // All threads of a warp take part in an exchange: they walk equally often.
  for (std::int64_t first = std::int64_t{blockIdx.x} * kPerBlock; first < all;
       first += std::int64_t{gridDim.x} * kPerBlock) {
    const std::int64_t block = first + threadIdx.x / kLanes;
    double sum = 0.0;
    const std::int64_t begin = block * kNormBlock;
    const std::int64_t end = min(begin + kNormBlock, count);
    if (from != nullptr) {
      for (std::int64_t i = begin + lane; i < end; i += kLanes) {
        const float value = values[i] + from[i];
        values[i] = value;
        sum += static_cast<double>(value) * static_cast<double>(value);
      }
    } else {
#pragma unroll 8
      for (std::int64_t i = begin + lane; i < end; i += kLanes) {
        sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      }
    }
    for (int by = 1; by < kLanes; by *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
    if (lane == 0 && block < all) blocks[block] = sum;
  }
}

void squares(const core::Work& work, const char* name, std::int64_t count, const float* from,
             float* values, double* blocks) {
  if (count == 0) return;
  const std::int64_t threads = norm_blocks(count) * kLanes;
  launch(work, name, {{walk_blocks(work, threads, kSquareThreads), 1, 1}, {kSquareThreads, 1, 1}},
         square_blocks, count, from, values, blocks);
}

void add_squares(const core::Work& work, std::int64_t count, const float* from, float* into,
                 std::span<double> blocks) {
  squares(work, "add_squares", count, from, into, blocks.data());
}

void squared_norm(const core::Work& work, std::span<const float> values, std::span<double> blocks) {
  squares(work, "squared_norm", std::ssize(values), nullptr, const_cast<float*>(values.data()),
          blocks.data());
}

struct Clear {
  std::int32_t* found;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    found[at] = 0;
  }
};
struct Reaches {
  const float* values;
  float limit;
  std::int32_t* found;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto pack = load<kWidth>(values + at);
    bool reaches = false;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      reaches |= !(pack.at[i] < limit && pack.at[i] > -limit);
    }
    if (reaches) *found = 1;
  }
};

void any_reaches(const core::Work& work, std::span<const float> values, float limit,
                 std::int32_t* found) {
  walk<1>(work, "any_reaches", 1, false, Clear{found});
  walk<kWide>(work, "any_reaches", std::ssize(values), aligned(values.data()),
              Reaches{values.data(), limit, found});
}

// The tree of core/tree.h over rows that come one after the other: partial sums wait, by level,
// until their neighbour is complete.
constexpr int kMostRows = 64;
struct TreeAdd {
  std::array<const float*, kMostRows> rows;
  int count;
  float* out;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    constexpr int kLevels = 7;
    Pack<float, kWidth> waiting[kLevels];
    for (int row = 0; row < count; ++row) {
      Pack<float, kWidth> sum = load<kWidth>(rows[static_cast<std::size_t>(row)] + at);
      bool placed = false;
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {
        if (placed) continue;
        if ((row >> level) % 2 == 0) {
          waiting[level] = sum;
          placed = true;
        } else {
          sum = plus(waiting[level], sum);
        }
      }
    }
    Pack<float, kWidth> total{};
    bool some = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((count >> level) % 2 == 0) continue;
      total = some ? plus(waiting[level], total) : waiting[level];
      some = true;
    }
    store(out + at, total);
  }
  template <int kWidth>
  static __device__ Pack<float, kWidth> plus(Pack<float, kWidth> a, const Pack<float, kWidth>& b) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) a.at[i] += b.at[i];
    return a;
  }
};

void tree_add(const core::Work& work, std::span<const float* const> rows, std::int64_t count,
              float* out) {
  FM_CHECK(std::ssize(rows) >= 1 && std::ssize(rows) <= kMostRows, "a tree of ", rows.size(),
           " rows");
  TreeAdd body{{}, static_cast<int>(rows.size()), out};
  bool wide = aligned(out);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    body.rows[i] = rows[i];
    wide = wide && aligned(rows[i]);
  }
  walk<kWide>(work, "tree_add", count, wide, body);
}

struct AddToBoth {
  float* a;
  float* b;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto sum = load<kWidth>(a + at);
    const auto other = load<kWidth>(b + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum.at[i] += other.at[i];
    store(a + at, sum);
    store(b + at, sum);
  }
};

void tree_add_to_both(const core::Work& work, std::int64_t count, float* a, float* b) {
  walk<kWide>(work, "tree_add_to_both", count, aligned(a, b), AddToBoth{a, b});
}

}  // namespace

void fill_sums(DeviceKernels& table) {
  table.add = add;
  table.add_squares = add_squares;
  table.any_reaches = any_reaches;
  table.squared_norm = squared_norm;
  table.tree_add = tree_add;
  table.tree_add_to_both = tree_add_to_both;
}

}  // namespace fm::kernels::cuda
