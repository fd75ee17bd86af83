#include <algorithm>

#include "kernels/gemm/few_rows.h"
#include "kernels/narrow_rows.h"
#include "kernels/rows.h"

namespace fm::kernels::FM_SIMD {
namespace {

constexpr std::int64_t kTerms = 1024;  // that are widened at a time

template <class T>
[[gnu::always_inline]] inline const float* widened(std::int64_t count, const T* row,
                                                   float* memory) {
  convert_row(count, row, memory);
  return memory;
}
[[gnu::always_inline]] inline const float* widened(std::int64_t, const float* row, float*) {
  return row;
}

// Weights [n, k]: a result is a sum along a row of them.
template <class T>
void by_rows(const FewRowsTile<T>& at) {
  float memory[kTerms];
  for (std::int64_t n = 0; n < at.shape.n; ++n) {
    const T* const row = at.weights.data + n * at.weights.stride;
    for (std::int64_t m = 0; m < at.shape.m; ++m) at.sums[m * at.shape.n + n] = 0.0F;
    for (std::int64_t first = 0; first < at.shape.k; first += kTerms) {
      const std::int64_t count = std::min(kTerms, at.shape.k - first);
      const float* const w = widened(count, row + first, memory);
      for (std::int64_t m = 0; m < at.shape.m; ++m) {
        const float* const x = at.x + m * at.x_stride + first;
        at.sums[m * at.shape.n + n] +=
            lane_sum<float>(count, [&](std::int64_t i) { return x[i] * w[i]; });
      }
    }
  }
}

// Weights [k, n]: each row of them is added to all results.
template <class T>
void by_columns(const FewRowsTile<T>& at) {
  float memory[kFewRowsColumns];
  std::fill_n(at.sums, at.shape.m * at.shape.n, 0.0F);
  for (std::int64_t k = 0; k < at.shape.k; ++k) {
    const float* const w = widened(at.shape.n, at.weights.data + k * at.weights.stride, memory);
    for (std::int64_t m = 0; m < at.shape.m; ++m) {
      const float x = at.x[m * at.x_stride + k];
      float* const sums = at.sums + m * at.shape.n;
#pragma GCC ivdep
      for (std::int64_t n = 0; n < at.shape.n; ++n) sums[n] += x * w[n];
    }
  }
}

}  // namespace

template <class T>
void few_rows_tile(const FewRowsTile<T>& at) {
  if (at.weights.form == Form::kTransposed) {
    by_rows(at);
  } else {
    by_columns(at);
  }
}

template decltype(kernels::few_rows_tile<float>) few_rows_tile;
template decltype(kernels::few_rows_tile<core::Bf16>) few_rows_tile;
template decltype(kernels::few_rows_tile<core::F16>) few_rows_tile;

}  // namespace fm::kernels::FM_SIMD
