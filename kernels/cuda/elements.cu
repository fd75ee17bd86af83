// Elements that are cast, added, scaled, dropped, cleared, copied and merged. All but column_sums
// and merge_partial_softmax give the bits of this CPU's kernels.
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk_rows.h"
#include "kernels/pointwise/elements.h"

namespace fm::kernels::cuda {
namespace {

template <class From, class To>
struct Cast {
  const From* from;
  std::int64_t from_stride;
  To* to;
  std::int64_t to_stride;
  template <int kWidth>
  __device__ void run(std::int64_t row, std::int64_t column) const {
    const auto in = load<kWidth>(from + row * from_stride + column);
    Pack<To, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) out.at[i] = narrowed<To>(widened(in.at[i]));
    store(to + row * to_stride + column, out);
  }
};

template <class From, class To>
void cast_rows(const core::Work& work, RowShape shape, const From* from, std::int64_t from_stride,
               To* to, std::int64_t to_stride) {
  constexpr int kCast = std::max(kWide<From>, kWide<To>);
  if (from_stride == shape.width && to_stride == shape.width) {
    shape = {1, shape.rows * shape.width};
  }
  const bool rows_fit = shape.rows == 1 || (from_stride % kCast == 0 && to_stride % kCast == 0);
  over_rows<kCast>(work, "cast_rows", shape, rows_fit && aligned(from, to),
                   Cast<From, To>{from, from_stride, to, to_stride});
}

template <class T>
struct AddBias {
  const T* bias;
  std::int64_t width;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t row, std::int64_t column) const {
    T* const to = y + row * width + column;
    const auto add = load<kWidth>(bias + column);
    auto values = load<kWidth>(static_cast<const T*>(to));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values.at[i] = narrowed<T>(widened(values.at[i]) + widened(add.at[i]));
    }
    store(to, values);
  }
};

template <class T>
void add_bias(const core::Work& work, RowShape shape, const T* bias, T* y) {
  over_rows<kWide<T>>(work, "add_bias", shape, shape.width % kWide<T> == 0 && aligned(bias, y),
                      AddBias<T>{bias, shape.width, y});
}

// Sums of columns: of the rows of a part, in row order, then of all parts.
constexpr int kSumThreads = 128;
constexpr std::int64_t kMostParts = 128;
constexpr std::int64_t kLeastRows = 16;                    // of a part
constexpr std::int64_t kPartSums = std::int64_t{1} << 20;  // of all parts: 4 MiB

template <int kWidth, class T>
__global__ void __launch_bounds__(kSumThreads, 6)
    sum_parts(RowShape shape, std::int64_t part_rows, const T* x, float* parts) {
  const std::int64_t column =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * std::int64_t{kWidth};
  if (column >= shape.width) return;
  const std::int64_t first = blockIdx.y * part_rows;
  const std::int64_t end = min(first + part_rows, shape.rows);
  Pack<float, kWidth> sum{};
#pragma unroll 8
  for (std::int64_t row = first; row < end; ++row) {
    sum = plus(sum, load<kWidth>(x + row * shape.width + column));
  }
  store(parts + blockIdx.y * shape.width + column, sum);
}

struct AddParts {
  const float* parts;
  std::int64_t count;
  std::int64_t width;
  float* sums;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    float sum = 0.0F;
#pragma unroll 8
    for (std::int64_t part = 0; part < count; ++part) sum += parts[part * width + at];
    sums[at] += sum;
  }
};

template <class T>
void column_sums(const core::Work& work, RowShape shape, const T* x, float* sums) {
  if (shape.rows == 0 || shape.width == 0) return;
  const std::int64_t most = std::clamp(kPartSums / shape.width, std::int64_t{1}, kMostParts);
  const std::int64_t part_rows = std::max(core::ceil_div(shape.rows, most), kLeastRows);
  const std::int64_t parts = core::ceil_div(shape.rows, part_rows);
  const Workspace memory = workspace(work);
  FM_CHECK(memory.bytes.count() >= parts * shape.width * std::int64_t{sizeof(float)}, "sums of ",
           shape.width, " columns in ", memory.bytes.count(), " bytes");
  auto* const part_sums = static_cast<float*>(memory.data);
  const bool wide = shape.width % kWide<T> == 0 && aligned(x);
  const std::int64_t items = wide ? shape.width / kWide<T> : shape.width;
  const Launch how = over_columns(items, parts, kSumThreads);
  if (wide) {
    launch(work, "column_sums", how, sum_parts<kWide<T>, T>, shape, part_rows, x, part_sums);
  } else {
    launch(work, "column_sums", how, sum_parts<1, T>, shape, part_rows, x, part_sums);
  }
  walk<1>(work, "column_sums", shape.width, false, AddParts{part_sums, parts, shape.width, sums});
}

template <class T>
struct AddResidual {
  const float* x;
  const T* residual;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    const auto values = load<kWidth>(x + at);
    auto sum = load<kWidth>(residual + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sum.at[i] = narrowed<T>(values.at[i] + widened(sum.at[i]));
    }
    store(y + at, sum);
  }
};

template <class T>
void add_residual(const core::Work& work, std::int64_t count, const float* x, const T* residual,
                  T* y) {
  walk<kWide<T>>(work, "add_residual", count, aligned(x, residual, y),
                 AddResidual<T>{x, residual, y});
}

template <class T>
struct Scale {
  float factor;
  T* x;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    auto values = load<kWidth>(static_cast<const T*>(x + at));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values.at[i] = narrowed<T>(widened(values.at[i]) * factor);
    store(x + at, values);
  }
};

template <class T>
void scale(const core::Work& work, std::int64_t count, float factor, T* x) {
  walk<kWide<T>>(work, "scale", count, aligned(x), Scale<T>{factor, x});
}

// A Philox block decides about four numbers of a group that are 16 apart: a thread takes kWidth
// neighbours of the first 16 and theirs in the rest, four accesses.
constexpr int kFours = 4;
constexpr int kApart = static_cast<int>(kDropoutGroup) / kFours;

template <class T>
__device__ __forceinline__ T dropped_or_scaled(std::uint32_t dropped, float factor, T value) {
  return narrowed<T>(dropped % 2 != 0 ? 0.0F : widened(value) * factor);
}

template <int kWidth, class T>
__device__ __forceinline__ void drop_four(std::uint32_t dropped, float factor, T* x) {
  Pack<T, kWidth> values[kFours];
#pragma unroll
  for (int k = 0; k < kFours; ++k) {
    values[k] = load<kWidth>(static_cast<const T*>(x + k * kApart));
  }
#pragma unroll
  for (int k = 0; k < kFours; ++k) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values[k].at[i] = dropped_or_scaled(dropped >> (k * kWidth + i), factor, values[k].at[i]);
    }
    store(x + k * kApart, values[k]);
  }
}

template <int kWidth, class T>
__global__ void __launch_bounds__(kWalkThreads, 4)
    drop(Dropout by, std::uint64_t first, std::int64_t count, T* x) {
  constexpr int kPerGroup = kApart / kWidth;
  const auto before = static_cast<std::int64_t>(first % kDropoutGroup);  // in the first group
  const std::int64_t items = core::ceil_div(before + count, kDropoutGroup) * kPerGroup;
  const std::int64_t stride = std::int64_t{gridDim.x} * kWalkThreads;
  for (std::int64_t item = std::int64_t{blockIdx.x} * kWalkThreads + threadIdx.x; item < items;
       item += stride) {
    const std::int64_t at = item / kPerGroup * kDropoutGroup - before + item % kPerGroup * kWidth;
    const std::uint64_t counter = (first - static_cast<std::uint64_t>(before)) / kFours +
                                  static_cast<std::uint64_t>(item / kPerGroup * kApart) +
                                  static_cast<std::uint64_t>(item % kPerGroup * kWidth);
    std::uint32_t dropped = 0;  // bits k kWidth + i
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const PhiloxWords words = philox(by.key, counter + static_cast<std::uint64_t>(i));
#pragma unroll
      for (int k = 0; k < kFours; ++k) {
        dropped |= (words.at[k] < by.dropped ? 1U : 0U) << (k * kWidth + i);
      }
    }
    if (at >= 0 && at + (kFours - 1) * kApart + kWidth <= count) {
      drop_four<kWidth>(dropped, by.scale, x + at);
    } else {
      for (int bit = 0; bit < kFours * kWidth; ++bit) {
        const std::int64_t one = at + bit / kWidth * kApart + bit % kWidth;
        if (one >= 0 && one < count) {
          x[one] = dropped_or_scaled(dropped >> bit, by.scale, x[one]);
        }
      }
    }
  }
}

template <class T>
void dropout(const core::Work& work, const Dropout& by, std::uint64_t first, std::int64_t count,
             T* x) {
  if (count == 0) return;
  const auto before = static_cast<std::int64_t>(first % kDropoutGroup);
  const std::int64_t blocks = core::ceil_div(before + count, kDropoutGroup) * kApart;  // of Philox
  const std::uintptr_t group =
      reinterpret_cast<std::uintptr_t>(x) - first % kDropoutGroup * sizeof(T);
  if (group % 16 == 0) {
    launch(work, "dropout", {{row_blocks(work, blocks / kWide<T>), 1, 1}}, drop<kWide<T>, T>, by,
           first, count, x);
  } else {
    launch(work, "dropout", {{row_blocks(work, blocks), 1, 1}}, drop<1, T>, by, first, count, x);
  }
}

struct Clear {
  float* out;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    store(out + at, Pack<float, kWidth>{});
  }
};

void clear(const core::Work& work, std::int64_t count, float* out) {
  walk<kWide<float>>(work, "clear", count, aligned(out), Clear{out});
}

// Strides and columns count units of bytes.
template <class Unit>
struct Copy {
  const Unit* from;
  std::int64_t from_stride;
  Unit* to;
  std::int64_t to_stride;
  template <int kWidth>
  __device__ void run(std::int64_t row, std::int64_t column) const {
    store(to + row * to_stride + column, load<kWidth>(from + row * from_stride + column));
  }
};

template <class Unit, int kWidth>
void copy_units(const core::Work& work, RowShape shape, SpacedRows<const std::byte> from,
                SpacedRows<std::byte> to) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Unit));
  over_rows<kWidth>(work, "copy_bytes", {shape.rows, shape.width / kSize}, true,
                    Copy<Unit>{reinterpret_cast<const Unit*>(from.data), from.stride / kSize,
                               reinterpret_cast<Unit*>(to.data), to.stride / kSize});
}

// By the largest accesses that may begin at every row.
void copy_spaced_bytes(const core::Work& work, RowShape shape, SpacedRows<const std::byte> from,
                       SpacedRows<std::byte> to) {
  if (from.stride == shape.width && to.stride == shape.width) {
    shape = {1, shape.rows * shape.width};
  }
  std::uintptr_t places =
      reinterpret_cast<std::uintptr_t>(from.data) | reinterpret_cast<std::uintptr_t>(to.data);
  if (shape.rows > 1) places |= static_cast<std::uintptr_t>(from.stride | to.stride);
  const std::uintptr_t all = places | static_cast<std::uintptr_t>(shape.width);
  if (places % 16 == 0) {
    copy_units<std::uint8_t, 16>(work, shape, from, to);
  } else if (all % 4 == 0) {
    copy_units<std::uint32_t, 1>(work, shape, from, to);
  } else if (all % 2 == 0) {
    copy_units<std::uint16_t, 1>(work, shape, from, to);
  } else {
    copy_units<std::uint8_t, 1>(work, shape, from, to);
  }
}

void copy_bytes(const core::Work& work, std::int64_t bytes, const void* from, void* to) {
  copy_spaced_bytes(work, {1, bytes}, {static_cast<const std::byte*>(from), bytes},
                    {static_cast<std::byte*>(to), bytes});
}

// A warp merges 32 queries of a head: each lane computes the weights of one of them in fp64, then
// all lanes walk the rows of `out`.
struct Merge {
  PartialShape shape;
  PartialSoftmax now;
  PartialSoftmax all;
  double scale;
};
struct QueryWeights {
  float of_all = 1.0F;
  float of_now = 0.0F;
  bool changes = false;
};

__device__ __forceinline__ QueryWeights merge_logsumexp(const Merge& at, std::int64_t head,
                                                        std::int64_t query) {
  if (query >= at.shape.queries) return {};
  float& before = at.all.logsumexp[head * at.shape.queries + query];
  const float other = at.now.logsumexp[head * at.shape.queries + query];
  if (other == -INFINITY) return {};
  const double ahead = (static_cast<double>(other) - before) * at.scale;
  // log(e^before + e^other), each times the scale.
  const double larger = max(before, other);
  before = static_cast<float>(larger + log1p(exp(-fabs(ahead))) / at.scale);
  return {static_cast<float>(1.0 / (1.0 + exp(ahead))),
          static_cast<float>(1.0 / (1.0 + exp(-ahead))), true};
}

template <int kWidth>
__global__ void __launch_bounds__(kWalkThreads, kRowBlocks) merge_queries(Merge at) {
  constexpr unsigned kAllLanes = 0xffffffffU;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t d = at.shape.head_dim;
  const std::int64_t tiles = core::ceil_div(at.shape.queries, kWarp);
  const std::int64_t stride = std::int64_t{gridDim.x} * (kWalkThreads / kWarp);
  for (std::int64_t item = (std::int64_t{blockIdx.x} * kWalkThreads + threadIdx.x) / kWarp;
       item < at.shape.heads * tiles; item += stride) {
    const std::int64_t head = item / tiles;
    const std::int64_t first = item % tiles * kWarp;
    const QueryWeights weights = merge_logsumexp(at, head, first + lane);
    const unsigned changes = __ballot_sync(kAllLanes, weights.changes);
    for (int i = 0; i < kWarp; ++i) {
      if ((changes >> i) % 2 == 0) continue;
      const float of_all = __shfl_sync(kAllLanes, weights.of_all, i);
      const float of_now = __shfl_sync(kAllLanes, weights.of_now, i);
      const std::int64_t row = ((first + i) * at.shape.heads + head) * d;
      for (std::int64_t column = row + lane * kWidth; column < row + d; column += kWarp * kWidth) {
        const auto now = load<kWidth>(at.now.out + column);
        auto all = load<kWidth>(at.all.out + column);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) all.at[k] = all.at[k] * of_all + now.at[k] * of_now;
        store(at.all.out + column, all);
      }
    }
  }
}

void merge_partial_softmax(const core::Work& work, const PartialShape& shape,
                           const PartialSoftmax& now, const PartialSoftmax& all) {
  constexpr int kFour = kWide<float>;
  const std::int64_t items = shape.heads * core::ceil_div(shape.queries, kWarp);
  if (items == 0 || shape.head_dim == 0) return;
  const Merge at{shape, now, all, scale_of(shape)};
  const Launch how{{row_blocks(work, items * kWarp), 1, 1}};
  if (shape.head_dim % kFour == 0 && aligned(now.out, all.out)) {
    launch(work, "merge_partial_softmax", how, merge_queries<kFour>, at);
  } else {
    launch(work, "merge_partial_softmax", how, merge_queries<1>, at);
  }
}

template <class T, class Table>
void fill(Table& table) {
  table.add_bias = add_bias<T>;
  table.add_residual = add_residual<T>;
  table.column_sums = column_sums<T>;
  table.dropout = dropout<T>;
  table.scale = scale<T>;
  table.widen = cast_rows<T, float>;
  table.narrow = cast_rows<float, T>;
}

}  // namespace

void fill_elements(DeviceKernels& table) {
  fill<float>(table.fp32);
  fill<core::Bf16>(table.bf16);
  fill<core::F16>(table.fp16);
  table.merge_partial_softmax = merge_partial_softmax;
  table.clear = clear;
  table.copy_bytes = copy_bytes;
  table.copy_spaced_bytes = copy_spaced_bytes;
}

}  // namespace fm::kernels::cuda
