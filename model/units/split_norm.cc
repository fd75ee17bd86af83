#include "model/units/split_norm.h"

#include <cmath>

#include "core/element.h"
#include "model/units/tensor_parallel.h"

namespace fm::model {

template <class T>
void split_rmsnorm_rstd(const SplitRows& rows, double eps, const T* x, core::Work& work,
                        float* rstd) {
  const core::Arena::Scope scope(work.arena);
  const auto [count, width] = rows.shape;
  double* const squares = work.arena.take<double>(count);
  kernels::rmsnorm_rstd(rows.shape, x, 0.0, rstd);  // of this part: 1 / sqrt(mean(x^2))
  for (std::int64_t row = 0; row < count; ++row) {
    const auto root = static_cast<double>(rstd[row]);
    squares[row] = rows.counts ? static_cast<double>(width) / (root * root) : 0.0;
  }
  sum_over(rows.tensor, count, squares);
  for (std::int64_t row = 0; row < count; ++row) {
    rstd[row] =
        static_cast<float>(1.0 / std::sqrt(squares[row] / static_cast<double>(rows.all) + eps));
  }
}

template <class T>
void split_rmsnorm_backward(const SplitRows& rows, const NormBackward<T>& arrays,
                            core::Work& work) {
  const core::Arena::Scope scope(work.arena);
  const auto [count, width] = rows.shape;
  double* const products = work.arena.take<double>(count);
  for (std::int64_t row = 0; row < count; ++row) {
    const T* const x = arrays.x + row * width;
    const float* const dy = arrays.dy + row * width;
    const float rstd = arrays.kept.rstd[row];
    double sum = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      const float step = dy[i] * (core::to_float(x[i]) * rstd);
      arrays.sums.weight[i] += step;
      sum +=
          static_cast<double>(step) * static_cast<double>(core::to_float(arrays.weights.weight[i]));
    }
    products[row] = rows.counts ? sum : 0.0;
  }
  sum_over(rows.tensor, count, products);
  for (std::int64_t row = 0; row < count; ++row) {
    const T* const x = arrays.x + row * width;
    const float* const dy = arrays.dy + row * width;
    const float rstd = arrays.kept.rstd[row];
    const auto mean = static_cast<float>(products[row] / static_cast<double>(rows.all));
    for (std::int64_t i = 0; i < width; ++i) {
      const float g = dy[i] * core::to_float(arrays.weights.weight[i]);
      arrays.dx[row * width + i] =
          core::to_element<T>(rstd * (g - core::to_float(x[i]) * rstd * mean));
    }
  }
}

#define FM_OF(T)                                                                             \
  template void split_rmsnorm_rstd(const SplitRows&, double, const T*, core::Work&, float*); \
  template void split_rmsnorm_backward(const SplitRows&, const NormBackward<T>&, core::Work&);
FM_OF(float)
FM_OF(core::Bf16)
FM_OF(core::F16)
#undef FM_OF

}  // namespace fm::model
