#include "kernels/pointwise/split_norm.h"

#include <cmath>

#include "core/element.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;

void split_squares(const SplitShape& shape, const float* rstd, double* squares) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto root = static_cast<double>(rstd[row]);
    squares[row] = shape.counts ? static_cast<double>(shape.width) / (root * root) : 0.0;
  }
}

void split_rstd(const SplitShape& shape, double eps, const double* squares, float* rstd) {
  const auto all = static_cast<double>(shape.all);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    rstd[row] = static_cast<float>(1.0 / std::sqrt(squares[row] / all + eps));
  }
}

template <class T>
void split_products(const SplitShape& shape, const SplitNormBackward<T>& at, double* products) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* const x = at.x + row * shape.width;
    const float* const dy = at.dy + row * shape.width;
    const float rstd = at.rstd[row];
    double sum = 0.0;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const float step = dy[i] * (core::to_float(x[i]) * rstd);
      at.dweight_sum[i] += step;
      sum += static_cast<double>(step) * static_cast<double>(core::to_float(at.weight[i]));
    }
    products[row] = shape.counts ? sum : 0.0;
  }
}

template <class T>
void split_input(const SplitShape& shape, const SplitNormBackward<T>& at, const double* products) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* const x = at.x + row * shape.width;
    const float* const dy = at.dy + row * shape.width;
    T* const dx = at.dx + row * shape.width;
    const float rstd = at.rstd[row];
    const auto mean = static_cast<float>(products[row] / static_cast<double>(shape.all));
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const float g = dy[i] * core::to_float(at.weight[i]);
      dx[i] = core::to_element<T>(rstd * (g - core::to_float(x[i]) * rstd * mean));
    }
  }
}

template WithoutWork<decltype(kernels::split_products<float>)> split_products;
template WithoutWork<decltype(kernels::split_products<Bf16>)> split_products;
template WithoutWork<decltype(kernels::split_products<F16>)> split_products;
template WithoutWork<decltype(kernels::split_input<float>)> split_input;
template WithoutWork<decltype(kernels::split_input<Bf16>)> split_input;
template WithoutWork<decltype(kernels::split_input<F16>)> split_input;

}  // namespace fm::kernels::FM_SIMD
