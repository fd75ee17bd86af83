// Softmax cross-entropy (kernels/pointwise/cross_entropy.h). A block walks a row twice: for its
// maximum and sum, then backward for the gradients, which finds the end of the row in the cache.
#include <algorithm>
#include <type_traits>

#include "core/check.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk_rows.h"
#include "kernels/rows.h"

namespace fm::kernels::cuda {
namespace {

constexpr int kAhead = 4;  // packs of 4 logits of a thread under way

// Rows that are long take all threads of a multiprocessor, so that few of them share the cache;
// many short ones are under way at once.
constexpr std::int64_t kLongRow = 16384;
constexpr unsigned kLongThreads = 1024;
constexpr unsigned kShortThreads = 128;

template <int kCount>
using Logits = Pack<float, kCount>;

struct RowMemory {
  float maxima[kLongThreads / kWarp];
  double sums[kLongThreads / kWarp];
};

// Logits i .. i + 3 of a row, -infinity behind its end. Where rows are not aligned, each thread
// still loads the same logits, so that sums do not depend on where a row lies.
__device__ __forceinline__ Logits<kWide<float>> logits_at(const float* row, std::int64_t width,
                                                          bool wide, std::int64_t i) {
  if (wide && i + kWide<float> <= width) return load<kWide<float>>(row + i);
  Logits<kWide<float>> logits;
#pragma unroll
  for (int j = 0; j < kWide<float>; ++j) logits.at[j] = i + j < width ? row[i + j] : -INFINITY;
  return logits;
}

// What exponents are taken against: of nothing but -infinity, they are 0.
__device__ __forceinline__ float reference(float max) { return max == -INFINITY ? 0.0F : max; }

struct RowSum {
  float max;
  double sum;  // of e^(x - max)
};

// Of the logits that this thread loads. The sum follows the maximum as it grows.
__device__ __forceinline__ RowSum sum_of_thread(const float* row, std::int64_t width) {
  const bool wide = reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
  const std::int64_t step = std::int64_t{blockDim.x} * kWide<float>;
  RowSum so_far{-INFINITY, 0.0};
  for (std::int64_t i = std::int64_t{threadIdx.x} * kWide<float>; i < width; i += kAhead * step) {
    Logits<kWide<float>> logits[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) logits[k] = logits_at(row, width, wide, i + k * step);
    float max = so_far.max;
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
#pragma unroll
      for (int j = 0; j < kWide<float>; ++j) max = fmaxf(max, logits[k].at[j]);
    }
    const float against = reference(max);
    if (max > so_far.max) {
      so_far.sum *= static_cast<double>(expf(so_far.max - against));
      so_far.max = max;
    }
    float sum = 0.0F;
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
#pragma unroll
      for (int j = 0; j < kWide<float>; ++j) sum += expf(logits[k].at[j] - against);
    }
    so_far.sum += static_cast<double>(sum);
  }
  return so_far;
}

// Of the whole row, for every thread of the block. Two barriers are enough for many rows: a thread
// writes the next row's maxima when all have read this row's, before the second barrier, and the
// next row's sums when all have read this row's, before the next row's first barrier.
__device__ __forceinline__ RowSum sum_of_row(const float* row, std::int64_t width,
                                             RowMemory& memory) {
  const RowSum mine = sum_of_thread(row, width);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  float max = mine.max;
  for (int by = 1; by < kWarp; by *= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffU, max, by));
  if (lane == 0) memory.maxima[warp] = max;
  __syncthreads();
  for (int i = 0; i < warps; ++i) max = fmaxf(max, memory.maxima[i]);
  double sum = mine.sum * static_cast<double>(expf(mine.max - reference(max)));
  for (int by = 1; by < kWarp; by *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, by);
  if (lane == 0) memory.sums[warp] = sum;
  __syncthreads();
  sum = 0.0;
  for (int i = 0; i < warps; ++i) sum += memory.sums[i];
  return {max, sum};
}

// kCount logits from `from` on, which accesses of 16 bytes may read where they are `wide`.
template <int kCount>
__device__ __forceinline__ Logits<kCount> logits_from(const float* from, bool wide) {
  if (wide) return load<kCount>(from);
  Logits<kCount> logits;
#pragma unroll
  for (int j = 0; j < kCount; ++j) logits.at[j] = from[j];
  return logits;
}

// to[i] = map(i, row[i]), rounded once, the end first; fp32 is written into the row. Packs begin
// where `to` is aligned. So is the row there, if both arrays are at their beginnings.
template <class Out, class Map>
__device__ __forceinline__ void map_row(const float* row, std::int64_t width, const Map& map,
                                        Out* to) {
  constexpr int kPack = kWide<Out>;
  constexpr int kUnderWay = kAhead * kWide<float> / kPack;
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const auto before = static_cast<std::int64_t>((16 - address % 16) % 16 / sizeof(Out));
  const std::int64_t head = min(before, width);
  const bool in_place = std::is_same_v<Out, float>;
  const bool wide = in_place || reinterpret_cast<std::uintptr_t>(row + head) % 16 == 0;
  const std::int64_t packs = (width - head) / kPack;
  const std::int64_t tail = head + packs * kPack;
  for (std::int64_t i = tail + threadIdx.x; i < width; i += blockDim.x) {
    to[i] = narrowed<Out>(map(i, row[i]));
  }
  const std::int64_t step = std::int64_t{blockDim.x} * kUnderWay;
  for (std::int64_t first = (packs - 1) / step * step; first >= 0; first -= step) {
    const std::int64_t mine = first + threadIdx.x;
    Logits<kPack> logits[kUnderWay];
#pragma unroll
    for (int k = 0; k < kUnderWay; ++k) {
      const std::int64_t pack = mine + std::int64_t{blockDim.x} * k;
      if (pack < packs) logits[k] = logits_from<kPack>(row + head + pack * kPack, wide);
    }
#pragma unroll
    for (int k = 0; k < kUnderWay; ++k) {
      const std::int64_t pack = mine + std::int64_t{blockDim.x} * k;
      if (pack >= packs) continue;
      const std::int64_t i = head + pack * kPack;
      Pack<Out, kPack> mapped;
#pragma unroll
      for (int j = 0; j < kPack; ++j) mapped.at[j] = narrowed<Out>(map(i + j, logits[k].at[j]));
      store(to + i, mapped);
    }
  }
  for (std::int64_t i = threadIdx.x; i < head; i += blockDim.x) {
    to[i] = narrowed<Out>(map(i, row[i]));
  }
}

struct Zero {
  __device__ float operator()(std::int64_t /*i*/, float /*logit*/) const { return 0.0F; }
};
struct Exponential {
  float max;
  __device__ float operator()(std::int64_t /*i*/, float logit) const { return expf(logit - max); }
};
struct Gradient {
  float max;
  float factor;
  float scale;
  std::int64_t label;
  __device__ float operator()(std::int64_t i, float logit) const {
    const float all = expf(logit - max) * factor;
    return i == label ? all - scale : all;
  }
};
// The derivative of softcap tanh(x / softcap) where it is `logit`.
__device__ __forceinline__ float slope_of(float logit, float softcap) {
  const float share = logit / softcap;
  return 1.0F - share * share;
}
struct SlopedExponential {
  float max;
  float softcap;
  __device__ float operator()(std::int64_t /*i*/, float logit) const {
    return expf(logit - max) * slope_of(logit, softcap);
  }
};
struct SlopedGradient {
  Gradient of_logit;
  float softcap;
  __device__ float operator()(std::int64_t i, float logit) const {
    return of_logit(i, logit) * slope_of(logit, softcap);
  }
};
struct GradientOfPart {
  float factor;
  float scale;  // of the label
  std::int64_t label;
  __device__ float operator()(std::int64_t i, float exponential) const {
    const float all = exponential * factor;
    return i == label ? all - scale : all;
  }
};

// losses [rows], 0 of those that are ignored.
enum class Makes : std::uint8_t { kLosses, kGradients, kSlopedGradients };
template <Makes kMakes, class Out>
__global__ void __launch_bounds__(kLongThreads)
    losses_of_rows(LogitRows shape, const float* logits, const std::int32_t* labels,
                   LogitGradient gradient, Out* gradients, double* losses) {
  auto& memory = shared_memory<RowMemory>();
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const float* const row = logits + r * shape.stride;
    Out* const to = gradients + r * shape.stride;
    const std::int32_t label = labels[r];
    if (label == kIgnoredLabel) {
      if constexpr (kMakes != Makes::kLosses) map_row(row, shape.width, Zero{}, to);
      if (threadIdx.x == 0) losses[r] = 0.0;
      continue;
    }
    const float label_logit = row[label];
    const RowSum of_row = sum_of_row(row, shape.width, memory);
    if (threadIdx.x == 0) {
      losses[r] =
          log(of_row.sum) + (static_cast<double>(of_row.max) - static_cast<double>(label_logit));
    }
    if constexpr (kMakes != Makes::kLosses) {
      const Gradient of_logit{of_row.max, static_cast<float>(gradient.scale / of_row.sum),
                              static_cast<float>(gradient.scale), std::int64_t{label}};
      if constexpr (kMakes == Makes::kGradients) {
        map_row(row, shape.width, of_logit, to);
      } else {
        map_row(row, shape.width, SlopedGradient{of_logit, gradient.softcap}, to);
      }
    }
  }
}

__global__ void __launch_bounds__(kLongThreads)
    exponentials_of_rows(LogitRows shape, float softcap, float* logits, double* max, double* sum) {
  auto& memory = shared_memory<RowMemory>();
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    float* const row = logits + r * shape.stride;
    const RowSum of_row = sum_of_row(row, shape.width, memory);
    if (threadIdx.x == 0) {
      max[r] = static_cast<double>(of_row.max);
      sum[r] = of_row.sum;
    }
    if (softcap > 0.0F) {
      map_row(row, shape.width, SlopedExponential{of_row.max, softcap}, row);
    } else {
      map_row(row, shape.width, Exponential{of_row.max}, row);
    }
  }
}

// *sum += losses, one after the other, by one thread; the others fetch them.
constexpr int kLossThreads = 256;
constexpr int kLossesAtOnce = 2048;
struct LossMemory {
  double losses[kLossesAtOnce];
};
__global__ void __launch_bounds__(kLossThreads)
    add_losses(std::int64_t rows, const double* losses, double* sum) {
  auto& memory = shared_memory<LossMemory>();
  double total = threadIdx.x == 0 ? *sum : 0.0;
  for (std::int64_t first = 0; first < rows; first += kLossesAtOnce) {
    const int count = static_cast<int>(min(std::int64_t{kLossesAtOnce}, rows - first));
    if (first > 0) __syncthreads();
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kLossThreads) {
      memory.losses[i] = losses[first + i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll 16
      for (int i = 0; i < count; ++i) total += memory.losses[i];
    }
  }
  if (threadIdx.x == 0) *sum = total;
}

// What ranks know of a row, put together.
struct PartsOfRows {
  std::int64_t rows;
  const std::int32_t* labels;
  VocabParts parts;
  double scale;
  double* losses;
  float* factors;
  template <int kWidth>
  __device__ void run(std::int64_t row) const {
    losses[row] = 0.0;
    factors[row] = 0.0F;
    if (labels[row] == kIgnoredLabel) return;
    const std::int64_t apart = 3 * rows;
    double most = parts.numbers[row];
    for (int rank = 1; rank < parts.ranks; ++rank) {
      const double other = parts.numbers[apart * rank + row];
      if (most < other) most = other;
    }
    double total = 0.0;
    double label_logit = 0.0;
    for (int rank = 0; rank < parts.ranks; ++rank) {
      const double* const of_rank = parts.numbers + apart * rank + row;
      total += of_rank[rows] * exp(of_rank[0] - most);
      label_logit += of_rank[2 * rows];
    }
    losses[row] = log(total) + (most - label_logit);
    const double mine = parts.numbers[apart * parts.rank + row];
    factors[row] = static_cast<float>(scale * exp(mine - most) / total);
  }
};

template <class Out>
__global__ void __launch_bounds__(kLongThreads)
    gradients_of_parts(LogitRows shape, RoundedGradients<Out> at, LogitGradient gradient,
                       const float* factors) {
  const VocabParts& parts = at.parts;
  // The logits of labels that are here.
  const double* const of_labels = parts.numbers + (3 * parts.rank + 2) * shape.rows;
  const auto scale = static_cast<float>(gradient.scale);
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const float* const row = at.logits + r * shape.stride;
    Out* const to = at.gradients + r * shape.stride;
    if (at.labels[r] == kIgnoredLabel) {
      map_row(row, shape.width, Zero{}, to);
    } else {
      const bool sloped = gradient.softcap > 0.0F;
      const auto label = static_cast<float>(of_labels[r]);
      const float of_label = sloped ? scale * slope_of(label, gradient.softcap) : scale;
      map_row(row, shape.width, GradientOfPart{factors[r], of_label, at.labels[r] - parts.first},
              to);
    }
  }
}

// A block per row, of as many threads as its width asks for: never of what else there is, so that
// a row has the same bits in every chunk.
Launch for_rows(const core::Work& work, LogitRows shape, std::size_t shared) {
  const unsigned threads = shape.width >= kLongRow ? kLongThreads : kShortThreads;
  const std::int64_t most = std::int64_t{kLongThreads / threads} * multiprocessors(work);
  return {{static_cast<unsigned>(std::min(shape.rows, most)), 1, 1}, {threads, 1, 1}, shared};
}

// Work space for `bytes` of every row.
double* numbers_of_rows(const core::Work& work, std::int64_t rows, std::size_t bytes) {
  const Workspace space = workspace(work);
  FM_CHECK(space.bytes >= core::Bytes(rows * static_cast<std::int64_t>(bytes)),
           "the work space is too small for ", rows, " rows");
  return static_cast<double*>(space.data);
}

void add_in_order(const core::Work& work, std::int64_t rows, const double* losses, double* sum) {
  launch(work, "cross_entropy", {{1, 1, 1}, {kLossThreads, 1, 1}, sizeof(LossMemory)}, add_losses,
         rows, losses, sum);
}

template <Makes kMakes, class Out>
void losses_by(const core::Work& work, LogitRows shape, const RoundedGradients<Out>& at,
               const LogitGradient& gradient, double* sum) {
  if (shape.rows == 0) return;
  double* const losses = numbers_of_rows(work, shape.rows, sizeof(double));
  launch(work, "cross_entropy", for_rows(work, shape, sizeof(RowMemory)),
         losses_of_rows<kMakes, Out>, shape, at.logits, at.labels, gradient, at.gradients, losses);
  add_in_order(work, shape.rows, losses, sum);
}

template <class Out>
void of_whole_rows(const core::Work& work, LogitRows shape, const RoundedGradients<Out>& at,
                   const LogitGradient& gradient, double* sum) {
  if (gradient.softcap > 0.0F) {
    losses_by<Makes::kSlopedGradients>(work, shape, at, gradient, sum);
  } else {
    losses_by<Makes::kGradients>(work, shape, at, gradient, sum);
  }
}

void cross_entropy(const core::Work& work, LogitRows shape, float* logits,
                   const std::int32_t* labels, const LogitGradient& gradient, double* sum) {
  of_whole_rows<float>(work, shape, {logits, labels, logits}, gradient, sum);
}

void cross_entropy_loss(const core::Work& work, LogitRows shape, const float* logits,
                        const std::int32_t* labels, double* sum) {
  auto* const untouched = const_cast<float*>(logits);
  losses_by<Makes::kLosses, float>(work, shape, {untouched, labels, untouched}, {}, sum);
}

struct FormLogits {
  LogitForm form;
  float inner;  // scale / softcap
  std::int64_t stride;
  float* logits;
  template <int kCount>
  __device__ void run(std::int64_t row, std::int64_t column) const {
    float* const at = logits + row * stride + column;
    auto pack = load<kCount>(at);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      pack.at[i] =
          form.softcap > 0.0F ? form.softcap * tanhf(pack.at[i] * inner) : pack.at[i] * form.scale;
    }
    store(at, pack);
  }
};

void form_logits(const core::Work& work, LogitRows shape, const LogitForm& form, float* logits) {
  const LogitRows all = shape.joined();
  const float inner = form.softcap > 0.0F ? form.scale / form.softcap : 0.0F;
  const bool wide = aligned(logits) && (all.rows == 1 || all.stride % kWide<float> == 0);
  over_rows<kWide<float>>(work, "form_logits", {all.rows, all.width}, wide,
                          FormLogits{form, inner, all.stride, logits});
}

void exponentials(const core::Work& work, LogitRows shape, float softcap, float* logits,
                  double* max, double* sum) {
  if (shape.rows == 0) return;
  launch(work, "exponentials", for_rows(work, shape, sizeof(RowMemory)), exponentials_of_rows,
         shape, softcap, logits, max, sum);
}

struct LabelLogits {
  LogitRows shape;
  const float* logits;
  const std::int32_t* labels;
  std::int64_t first;
  double* numbers;
  template <int kWidth>
  __device__ void run(std::int64_t row) const {
    const std::int64_t column = labels[row] - first;
    const bool here = labels[row] != kIgnoredLabel && column >= 0 && column < shape.width;
    numbers[row] = here ? static_cast<double>(logits[row * shape.stride + column]) : 0.0;
  }
};

void label_logits(const core::Work& work, LogitRows shape, const float* logits,
                  const std::int32_t* labels, std::int64_t first, double* numbers) {
  walk<1>(work, "label_logits", shape.rows, false,
          LabelLogits{shape, logits, labels, first, numbers});
}

template <class Out>
void of_parts(const core::Work& work, LogitRows shape, const RoundedGradients<Out>& at,
              const LogitGradient& gradient, double* sum) {
  if (shape.rows == 0) return;
  double* const losses = numbers_of_rows(work, shape.rows, sizeof(double) + sizeof(float));
  auto* const factors = reinterpret_cast<float*>(losses + shape.rows);
  walk<1>(work, "cross_entropy_of_parts", shape.rows, false,
          PartsOfRows{shape.rows, at.labels, at.parts, gradient.scale, losses, factors});
  launch(work, "cross_entropy_of_parts", for_rows(work, shape, 0), gradients_of_parts<Out>, shape,
         at, gradient, factors);
  add_in_order(work, shape.rows, losses, sum);
}

void cross_entropy_of_parts(const core::Work& work, LogitRows shape, float* logits,
                            const std::int32_t* labels, const VocabParts& parts,
                            const LogitGradient& gradient, double* sum) {
  of_parts<float>(work, shape, {logits, labels, logits, parts}, gradient, sum);
}

template <class T>
void rounded_cross_entropy(const core::Work& work, LogitRows shape, const RoundedGradients<T>& at,
                           const LogitGradient& gradient, double* sum) {
  if (at.parts.numbers == nullptr) return of_whole_rows(work, shape, at, gradient, sum);
  of_parts(work, shape, at, gradient, sum);
}

}  // namespace

void fill_cross_entropy(DeviceKernels& table) {
  table.cross_entropy = cross_entropy;
  table.cross_entropy_loss = cross_entropy_loss;
  table.cross_entropy_of_parts = cross_entropy_of_parts;
  table.exponentials = exponentials;
  table.form_logits = form_logits;
  table.label_logits = label_logits;
  table.fused.bf16.rounded_cross_entropy = rounded_cross_entropy<core::Bf16>;
  table.fused.fp16.rounded_cross_entropy = rounded_cross_entropy<core::F16>;
}

}  // namespace fm::kernels::cuda
