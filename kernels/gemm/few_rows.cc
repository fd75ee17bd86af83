#include "kernels/gemm/few_rows.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/trace.h"
#include "kernels/cast_block.h"
#include "kernels/gemm/libraries.h"

namespace fm::kernels {
namespace {

constexpr core::TraceForm kForm = {
    "few_rows", core::TraceKind::kKernel, {"rows", "columns", "terms", "bytes"}};

template <class C>
void write(const GemmShape& tile, const float* sums_MN, const Target<C>& c) {
  for (std::int64_t m = 0; m < tile.m; ++m) {
    const float* const sums = sums_MN + m * tile.n;
    C* const row = c.data + m * c.stride;
    for (std::int64_t n = 0; n < tile.n; ++n) {
      const float before = c.beta == Beta::kOne ? core::to_float(row[n]) : 0.0F;
      row[n] = core::to_element<C>(before + sums[n]);
    }
  }
}

// Waking a thread takes as long as reading so many bytes.
constexpr std::int64_t kWorthThreads = 1 << 18;

// Columns of a tile: all threads have some, of 16 at least.
std::int64_t columns_of(std::int64_t n, int threads) {
  const std::int64_t share = (n + threads - 1) / threads;
  return std::min(kFewRowsColumns, (share + 15) / 16 * 16);
}

template <class T>
void widen(const GemmShape& shape, const Operand<T>& a, std::vector<float>& wide) {
  wide.resize(static_cast<std::size_t>(shape.m * shape.k));
  cast_block({shape.m, shape.k}, a.data, a.stride, wide.data(), shape.k);
}

}  // namespace

template <class T, class C>
void gemm_few_rows(const core::Work& work, const GemmShape& shape, const Operand<T>& a,
                   const Operand<T>& b, const Target<C>& c) {
  if (shape.m > kFewRows || work.queue != nullptr) return gemm(work, shape, a, b, c);
  FM_CHECK(a.form == Form::kAsIs, "few rows lie as they are");
  const Target<C> to = in_place(work, shape, c);
  const core::TraceScope scope(
      work.queue, kForm, {shape.m, shape.n, shape.k, shape.n * shape.k * std::int64_t{sizeof(T)}});
  std::vector<float> wide;
  const float* x = nullptr;
  std::int64_t x_stride = shape.k;
  if constexpr (std::is_same_v<T, float>) {
    x = a.data;
    x_stride = a.stride;
  } else {
    widen(shape, a, wide);
    x = wide.data();
  }
  const std::int64_t bytes = shape.n * shape.k * std::int64_t{sizeof(T)};
  const int threads = bytes < kWorthThreads ? 1 : work.threads;
  const std::int64_t columns = columns_of(shape.n, threads);
  const std::int64_t tiles = (shape.n + columns - 1) / columns;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    float sums[kFewRows * kFewRowsColumns];
    const std::int64_t first = tile * columns;
    const std::int64_t apart = b.form == Form::kTransposed ? b.stride : 1;
    const GemmShape part{shape.m, std::min(columns, shape.n - first), shape.k};
    few_rows_tile<T>({part, x, x_stride, {b.data + first * apart, b.stride, b.form}, sums});
    write<C>(part, sums, {to.data + first, to.stride, to.beta});
  }
}

template void gemm_few_rows(const core::Work&, const GemmShape&, const Operand<float>&,
                            const Operand<float>&, const Target<float>&);
template void gemm_few_rows(const core::Work&, const GemmShape&, const Operand<core::Bf16>&,
                            const Operand<core::Bf16>&, const Target<float>&);
template void gemm_few_rows(const core::Work&, const GemmShape&, const Operand<core::Bf16>&,
                            const Operand<core::Bf16>&, const Target<core::Bf16>&);
template void gemm_few_rows(const core::Work&, const GemmShape&, const Operand<core::F16>&,
                            const Operand<core::F16>&, const Target<float>&);
template void gemm_few_rows(const core::Work&, const GemmShape&, const Operand<core::F16>&,
                            const Operand<core::F16>&, const Target<core::F16>&);

}  // namespace fm::kernels
