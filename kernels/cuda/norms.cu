// RMSNorm and LayerNorm, and the parts of an RMSNorm whose rows several ranks share. Every sum has
// an order that follows from the sizes alone: a card and a grid do not change bits.
#include <algorithm>
#include <array>
#include <type_traits>

#include "core/check.h"
#include "kernels/cuda/column_tiles.h"
#include "kernels/cuda/table.h"

namespace fm::kernels::cuda {
namespace {

// kSplit: RMSNorm whose sums over a row the ranks add up.
enum class Norm : std::uint8_t { kRms, kLayer, kSplit };
// Sums over a row of the backward: of g n, and of g. Sums over rows: of dy n, and of dy.
template <Norm kNorm>
inline constexpr int kSums = kNorm == Norm::kLayer ? 2 : 1;
// What is added to a weight before it multiplies.
float offset_of(NormGain gain) { return gain == NormGain::kWeight ? 0.0F : 1.0F; }

// y = (offset + weight) (x - mean) rstd + bias; RMSNorm has neither mean nor bias, and a null bias
// is zeros.
template <Norm kNorm, class T, int kWidth>
__device__ Pack<T, kWidth> normalized(const Pack<T, kWidth>& x, const Pack<T, kWidth>& weight,
                                      const Pack<T, kWidth>& bias, float mean, float rstd,
                                      float offset) {
  Pack<T, kWidth> out;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float normed = (widened(x.at[i]) - mean) * rstd;
    float value = (offset + widened(weight.at[i])) * normed;
    if constexpr (kNorm == Norm::kLayer) value += widened(bias.at[i]);
    out.at[i] = narrowed<T>(value);
  }
  return out;
}

// What a norm writes beside the statistics; a null y: nothing.
template <class T>
struct Normalized {
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
  float offset = 0.0F;
};

// mean (of LayerNorm) and rstd of every row, which is still in registers when its rstd is known,
// and its norm. share: of an element in a mean.
template <Norm kNorm, class T, class Form>
__global__ void __launch_bounds__(Form::kThreads, Form::kBlocks)
    statistics_rows(RowShape shape, float share, float eps, const T* x, float* means, float* rstds,
                    Normalized<T> out) {
  using Memory = RowSums<float, 1, Form>;
  auto& shared = shared_memory<Memory>();
  const Columns<Form> columns = columns_of<Form>(shape.width);
  int turn = 0;
  for (std::int64_t first = std::int64_t{blockIdx.x} * Form::kRows; first < shape.rows;
       first += std::int64_t{gridDim.x} * Form::kRows) {
    const std::int64_t row = first + threadIdx.x / Form::kGroup;
    const T* x_D = row < shape.rows ? x + row * shape.width : nullptr;
    HeldRow<T, Form> held;
    held.read(columns, x_D);
    float mean = 0.0F;
    if constexpr (kNorm == Norm::kLayer) {
      float sum[1] = {0.0F};
#pragma unroll(Form::kUnroll)
      for (int p = 0; p < columns.packs(); ++p) {
        const auto pack = held.at(columns, x_D, p);
#pragma unroll
        for (int i = 0; i < Form::kWidth; ++i) sum[0] += widened(pack.at[i]);
      }
      add_over_group<Form>(sum, shared.at[turn]);
      turn ^= 1;
      mean = __fmul_rn(sum[0], share);  // rounded, as layernorm_apply reads it
    }
    float squares[1] = {0.0F};
#pragma unroll(Form::kUnroll)
    for (int p = 0; p < columns.packs(); ++p) {
      if (!columns.has(p)) continue;
      const auto pack = held.at(columns, x_D, p);
#pragma unroll
      for (int i = 0; i < Form::kWidth; ++i) {
        const float centered = widened(pack.at[i]) - mean;
        squares[0] += centered * centered;
      }
    }
    add_over_group<Form>(squares, shared.at[turn]);
    turn ^= 1;
    if (row >= shape.rows) continue;
    const float rstd = rsqrtf(squares[0] * share + eps);
    if (threadIdx.x % Form::kGroup == 0) {
      if constexpr (kNorm == Norm::kLayer) means[row] = mean;
      rstds[row] = rstd;
    }
    if (out.y == nullptr) continue;
#pragma unroll(Form::kUnroll)
    for (int p = 0; p < columns.packs(); ++p) {
      if (!columns.has(p)) continue;
      store(out.y + row * shape.width + columns.at(p),
            normalized<kNorm>(held.at(columns, x_D, p), columns.load(out.weight, p),
                              columns.load(out.bias, p), mean, rstd, out.offset));
    }
  }
}

template <Norm kNorm, class T>
void statistics(const core::Work& work, const char* name, RowShape shape, const T* x, double eps,
                float* means, float* rstds, const Normalized<T>& out = {}) {
  if (shape.rows == 0) return;
  by_form<T>(shape.width, aligned(x, out.weight, out.bias, out.y), [&](auto form) {
    using Form = decltype(form);
    launch(work, name,
           {{row_blocks<Form>(work, shape.rows), 1, 1},
            {Form::kThreads, 1, 1},
            sizeof(RowSums<float, 1, Form>)},
           statistics_rows<kNorm, T, Form>, shape, 1.0F / static_cast<float>(shape.width),
           static_cast<float>(eps), x, means, rstds, out);
  });
}

template <class T>
void rmsnorm_rstd(const core::Work& work, RowShape shape, const T* x, double eps, float* rstd) {
  statistics<Norm::kRms>(work, "rmsnorm_rstd", shape, x, eps, nullptr, rstd);
}

template <class T>
void layernorm_statistics(const core::Work& work, RowShape shape, const T* x, double eps,
                          float* mean, float* rstd) {
  statistics<Norm::kLayer>(work, "layernorm_statistics", shape, x, eps, mean, rstd);
}

template <Norm kNorm, class T>
struct Apply {
  const T* x;
  const T* weight;
  const T* bias;
  const float* mean;
  const float* rstd;
  T* y;
  float offset;

  template <int kWidth>
  struct OfColumns {
    Pack<T, kWidth> weight, bias;
  };
  template <int kWidth>
  struct OfRow {
    Pack<T, kWidth> x;
    float mean, rstd;
  };
  template <int kWidth>
  __device__ OfColumns<kWidth> columns(std::int64_t column) const {
    OfColumns<kWidth> of{load<kWidth>(weight + column), {}};
    if (kNorm == Norm::kLayer && bias != nullptr) of.bias = load<kWidth>(bias + column);
    return of;
  }
  template <int kWidth>
  __device__ OfRow<kWidth> row(std::int64_t row, std::int64_t at) const {
    return {load<kWidth>(x + at), kNorm == Norm::kLayer ? mean[row] : 0.0F, rstd[row]};
  }
  template <int kWidth>
  __device__ void write(const OfColumns<kWidth>& of, const OfRow<kWidth>& row,
                        std::int64_t at) const {
    store(y + at, normalized<kNorm>(row.x, of.weight, of.bias, row.mean, row.rstd, offset));
  }
};

template <class T>
void rmsnorm_apply(const core::Work& work, RowShape shape, const T* x, NormWeight<T> weight,
                   const float* rstd, T* y) {
  walk_rows<T>(
      work, "rmsnorm_apply", shape, aligned(x, weight.data, y),
      Apply<Norm::kRms, T>{x, weight.data, nullptr, nullptr, rstd, y, offset_of(weight.gain)});
}

template <class T>
void layernorm_apply(const core::Work& work, RowShape shape, const LayernormApply<T>& at) {
  walk_rows<T>(work, "layernorm_apply", shape, aligned(at.x, at.weight, at.bias, at.y),
               Apply<Norm::kLayer, T>{at.x, at.weight, at.bias, at.mean, at.rstd, at.y, 0.0F});
}

// The order of sums is that of x alone: where other arrays are less aligned, they are apart.
template <class T>
void rmsnorm(const core::Work& work, RowShape shape, const T* x, NormWeight<T> weight, double eps,
             float* rstd, T* y) {
  if (aligned(x) != aligned(x, weight.data, y)) {
    cuda::rmsnorm_rstd(work, shape, x, eps, rstd);
    return cuda::rmsnorm_apply(work, shape, x, weight, rstd, y);
  }
  statistics<Norm::kRms, T>(work, "rmsnorm", shape, x, eps, nullptr, rstd,
                            {weight.data, nullptr, y, offset_of(weight.gain)});
}

template <class T>
void layernorm(const core::Work& work, RowShape shape, double eps, const LayernormForward<T>& at) {
  if (aligned(at.x) != aligned(at.x, at.weight, at.bias, at.y)) {
    cuda::layernorm_statistics(work, shape, at.x, eps, at.mean, at.rstd);
    return cuda::layernorm_apply<T>(work, shape,
                                    {at.x, at.weight, at.bias, at.mean, at.rstd, at.y});
  }
  statistics<Norm::kLayer, T>(work, "layernorm", shape, at.x, eps, at.mean, at.rstd,
                              {at.weight, at.bias, at.y});
}

template <class T>
struct Backward {
  const T* x = nullptr;
  const T* weight = nullptr;
  const float* mean = nullptr;  // of LayerNorm
  const float* rstd = nullptr;
  const float* dy = nullptr;
  const T* residual = nullptr;
  T* dx = nullptr;
  double* products = nullptr;  // of kSplit, instead of dx
  bool counts = true;          // of kSplit
  float offset = 0.0F;         // added to weights
  // What `backward` sets: the sums [tiles, kSums, width] over the rows of every block, and the
  // share of an element in the mean of a row.
  float* partial = nullptr;
  float share = 0.0F;
};

// What a thread has of a row; null rows are zeros.
template <Norm kNorm, class T, class Form>
struct BackwardRow {
  const T* x_D;
  const float* dy_D;
  float mean, rstd;
  HeldRow<T, Form> x;
  HeldRow<float, Form> dy;
  HeldRow<T, Form> residual;

  __device__ void read(const Columns<Form>& columns, RowShape shape, const Backward<T>& from,
                       std::int64_t row) {
    const bool exists = row < shape.rows;
    x_D = exists ? from.x + row * shape.width : nullptr;
    dy_D = exists ? from.dy + row * shape.width : nullptr;
    x.read(columns, x_D);
    dy.read(columns, dy_D);
    if constexpr (kNorm != Norm::kSplit) residual.read(columns, residual_D(shape, from, row));
    rstd = exists ? from.rstd[row] : 0.0F;
    mean = exists && kNorm == Norm::kLayer ? from.mean[row] : 0.0F;
  }
  static __device__ const T* residual_D(RowShape shape, const Backward<T>& from, std::int64_t row) {
    if (from.residual == nullptr || row >= shape.rows) return nullptr;
    return from.residual + row * shape.width;
  }
};

template <class Sum, int kCount, class Form>
struct BackwardMemory {
  RowSums<Sum, kCount, Form> rows;
  // Of the groups of a block, to be added up at its end.
  alignas(16) float columns[Form::kRows > 1 ? Form::kRows : 1][kCount]
                           [Form::kRows > 1 ? Form::kMost : 1];
};

// Adds a row to the sums over columns, and gives the thread's sums over the row.
template <Norm kNorm, class T, class Form, class Sum>
__device__ void add_row(const Columns<Form>& columns, const Backward<T>& at,
                        const BackwardRow<kNorm, T, Form>& row,
                        ColumnSums<kSums<kNorm>, Form>& over_rows, Sum (&over_row)[kSums<kNorm>]) {
#pragma unroll(Form::kUnroll)
  for (int p = 0; p < columns.packs(); ++p) {
    const auto x = row.x.at(columns, row.x_D, p);
    const auto dy = row.dy.at(columns, row.dy_D, p);
    const auto w = columns.load(at.weight, p);
    Pack<float, Form::kWidth> steps[kSums<kNorm>];
#pragma unroll
    for (int i = 0; i < Form::kWidth; ++i) {
      const float gain = at.offset + widened(w.at[i]);
      const float step = dy.at[i] * ((widened(x.at[i]) - row.mean) * row.rstd);
      over_row[0] += static_cast<Sum>(step) * static_cast<Sum>(gain);
      steps[0].at[i] = step;
      if constexpr (kNorm == Norm::kLayer) {
        over_row[1] += dy.at[i] * gain;
        steps[1].at[i] = dy.at[i];
      }
    }
    over_rows.add(columns, p, steps);
  }
}

template <Norm kNorm, class T, class Form>
__device__ void write_input(const Columns<Form>& columns, RowShape shape, const Backward<T>& at,
                            const BackwardRow<kNorm, T, Form>& now, std::int64_t row,
                            const float (&over_row)[kSums<kNorm>]) {
  if (row >= shape.rows) return;
  const float product = over_row[0] * at.share;
  const float plain = kNorm == Norm::kLayer ? over_row[kSums<kNorm> - 1] * at.share : 0.0F;
#pragma unroll(Form::kUnroll)
  for (int p = 0; p < columns.packs(); ++p) {
    if (!columns.has(p)) continue;
    const auto x = now.x.at(columns, now.x_D, p);
    const auto dy = now.dy.at(columns, now.dy_D, p);
    const auto w = columns.load(at.weight, p);
    const auto residual = now.residual.at(columns, now.residual_D(shape, at, row), p);
    Pack<T, Form::kWidth> dx;
#pragma unroll
    for (int i = 0; i < Form::kWidth; ++i) {
      const float normed = (widened(x.at[i]) - now.mean) * now.rstd;
      const float g = dy.at[i] * (at.offset + widened(w.at[i]));
      dx.at[i] = narrowed<T>(widened(residual.at[i]) + now.rstd * (g - plain - normed * product));
    }
    store(at.dx + row * shape.width + columns.at(p), dx);
  }
}

// A block takes every gridDim.x-th row, or group of rows. All of a row is read before its dx is
// written, which may be where its x is.
template <Norm kNorm, class T, class Form>
__global__ void __launch_bounds__(Form::kThreads, Form::kBlocks)
    backward_rows(RowShape shape, Backward<T> at) {
  using Sum = std::conditional_t<kNorm == Norm::kSplit, double, float>;
  using Memory = BackwardMemory<Sum, kSums<kNorm>, Form>;
  auto& shared = shared_memory<Memory>();
  const Columns<Form> columns = columns_of<Form>(shape.width);
  ColumnSums<kSums<kNorm>, Form> over_rows{
      at.partial + std::int64_t{blockIdx.x} * kSums<kNorm> * shape.width, true, {}};
  int turn = 0;
  for (std::int64_t first = std::int64_t{blockIdx.x} * Form::kRows; first < shape.rows;
       first += std::int64_t{gridDim.x} * Form::kRows) {
    const std::int64_t row = first + threadIdx.x / Form::kGroup;
    BackwardRow<kNorm, T, Form> now;
    now.read(columns, shape, at, row);
    Sum over_row[kSums<kNorm>] = {};
    add_row<kNorm, T, Form>(columns, at, now, over_rows, over_row);
    over_rows.fresh = false;
    add_over_group<Form>(over_row, shared.rows.at[turn]);
    turn ^= 1;
    if constexpr (kNorm == Norm::kSplit) {
      if (threadIdx.x % Form::kGroup == 0 && row < shape.rows) {
        at.products[row] = at.counts ? over_row[0] : 0.0;
      }
    } else {
      write_input<kNorm, T, Form>(columns, shape, at, now, row, over_row);
    }
  }
  over_rows.finish(columns, shared.columns);
}

// So many blocks at most walk the rows of a backward, on every card: each has its partial sums.
constexpr std::int64_t kTiles = 512;

// sums: [0] is dweight_sum, [1] is dbias_sum, or null.
template <Norm kNorm, class T>
void backward(const core::Work& work, const char* name, RowShape shape, Backward<T> at,
              const std::array<float*, 2>& sums) {
  if (shape.rows == 0 || shape.width == 0) return;
  const Workspace memory = workspace(work);
  const std::int64_t columns = kSums<kNorm> * shape.width;
  const std::int64_t fit =
      memory.bytes.count() / (columns * static_cast<std::int64_t>(sizeof(float)));
  FM_CHECK(fit > 0, "the partial sums of ", name, " need work space for ", columns, " floats");
  at.partial = static_cast<float*>(memory.data);
  at.share = 1.0F / static_cast<float>(shape.width);
  const bool wide = aligned(at.x, at.weight, at.dy, at.residual, at.dx);
  by_form<T>(shape.width, wide, [&](auto form) {
    using Form = decltype(form);
    using Sum = std::conditional_t<kNorm == Norm::kSplit, double, float>;
    const std::int64_t tiles =
        std::min({core::ceil_div(shape.rows, std::int64_t{Form::kRows}), kTiles, fit});
    launch(work, name,
           {{static_cast<unsigned>(tiles), 1, 1},
            {Form::kThreads, 1, 1},
            sizeof(BackwardMemory<Sum, kSums<kNorm>, Form>)},
           backward_rows<kNorm, T, Form>, shape, at);
    add_tiles<kSums<kNorm>>(work, tiles, shape.width, at.partial, sums);
  });
}

template <class T>
void rmsnorm_backward(const core::Work& work, RowShape shape, const RmsnormBackward<T>& at) {
  backward<Norm::kRms, T>(work, "rmsnorm_backward", shape,
                          {.x = at.x,
                           .weight = at.weight,
                           .rstd = at.rstd,
                           .dy = at.dy,
                           .residual = at.residual,
                           .dx = at.dx,
                           .offset = offset_of(at.gain)},
                          {at.dweight_sum, nullptr});
}

template <class T>
void layernorm_backward(const core::Work& work, RowShape shape, const LayernormBackward<T>& at) {
  backward<Norm::kLayer, T>(work, "layernorm_backward", shape,
                            {.x = at.x,
                             .weight = at.weight,
                             .mean = at.mean,
                             .rstd = at.rstd,
                             .dy = at.dy,
                             .residual = at.residual,
                             .dx = at.dx},
                            {at.dweight_sum, at.dbias_sum});
}

template <class T>
void split_products(const core::Work& work, const SplitShape& shape, const SplitNormBackward<T>& at,
                    double* products) {
  backward<Norm::kSplit, T>(work, "split_products", {shape.rows, shape.width},
                            {.x = at.x,
                             .weight = at.weight,
                             .rstd = at.rstd,
                             .dy = at.dy,
                             .products = products,
                             .counts = shape.counts},
                            {at.dweight_sum, nullptr});
}

// dx = rstd (dy weight - x rstd product share)
template <class T>
struct SplitInput {
  const T* x;
  const T* weight;
  const float* dy;
  const float* rstd;
  const double* products;
  T* dx;
  double share;  // of an element in the mean of a whole row

  template <int kWidth>
  using OfColumns = Pack<T, kWidth>;
  template <int kWidth>
  struct OfRow {
    Pack<T, kWidth> x;
    Pack<float, kWidth> dy;
    float mean, rstd;
  };
  template <int kWidth>
  __device__ OfColumns<kWidth> columns(std::int64_t column) const {
    return load<kWidth>(weight + column);
  }
  template <int kWidth>
  __device__ OfRow<kWidth> row(std::int64_t row, std::int64_t at) const {
    return {load<kWidth>(x + at), load<kWidth>(dy + at), static_cast<float>(products[row] * share),
            rstd[row]};
  }
  template <int kWidth>
  __device__ void write(const OfColumns<kWidth>& of, const OfRow<kWidth>& row,
                        std::int64_t at) const {
    Pack<T, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = row.dy.at[i] * widened(of.at[i]);
      out.at[i] = narrowed<T>(row.rstd * (g - widened(row.x.at[i]) * row.rstd * row.mean));
    }
    store(dx + at, out);
  }
};

template <class T>
void split_input(const core::Work& work, const SplitShape& shape, const SplitNormBackward<T>& at,
                 const double* products) {
  walk_rows<T>(work, "split_input", {shape.rows, shape.width},
               aligned(at.x, at.weight, at.dy, at.dx),
               SplitInput<T>{at.x, at.weight, at.dy, at.rstd, products, at.dx,
                             1.0 / static_cast<double>(shape.all)});
}

struct SplitSquares {
  const float* rstd;
  double* squares;
  double width;  // 0 where the part does not count
  template <int kWidth>
  __device__ void run(std::int64_t row) const {
    const auto root = static_cast<double>(rstd[row]);
    const double norm = width == 0.0 ? 0.0 : 1.0 / root;
    squares[row] = width * norm * norm;
  }
};

void split_squares(const core::Work& work, const SplitShape& shape, const float* rstd,
                   double* squares) {
  const double width = shape.counts ? static_cast<double>(shape.width) : 0.0;
  walk<1>(work, "split_squares", shape.rows, false, SplitSquares{rstd, squares, width});
}

struct SplitRstd {
  const double* squares;
  float* rstd;
  double all, eps;
  template <int kWidth>
  __device__ void run(std::int64_t row) const {
    rstd[row] = static_cast<float>(1.0 / sqrt(squares[row] / all + eps));
  }
};

void split_rstd(const core::Work& work, const SplitShape& shape, double eps, const double* squares,
                float* rstd) {
  walk<1>(work, "split_rstd", shape.rows, false,
          SplitRstd{squares, rstd, static_cast<double>(shape.all), eps});
}

template <class T, class Table, class Fused>
void fill_elements_of(Table& table, Fused& fused) {
  table.layernorm_statistics = layernorm_statistics<T>;
  table.layernorm_apply = layernorm_apply<T>;
  table.layernorm_backward = layernorm_backward<T>;
  table.rmsnorm_rstd = rmsnorm_rstd<T>;
  table.rmsnorm_apply = rmsnorm_apply<T>;
  table.rmsnorm_backward = rmsnorm_backward<T>;
  table.split_input = split_input<T>;
  table.split_products = split_products<T>;
  fused.layernorm = layernorm<T>;
  fused.rmsnorm = rmsnorm<T>;
}

}  // namespace

void fill_norms(DeviceKernels& table) {
  fill_elements_of<float>(table.fp32, table.fused.fp32);
  fill_elements_of<core::Bf16>(table.bf16, table.fused.bf16);
  fill_elements_of<core::F16>(table.fp16, table.fused.fp16);
  table.split_squares = split_squares;
  table.split_rstd = split_rstd;
}

}  // namespace fm::kernels::cuda
