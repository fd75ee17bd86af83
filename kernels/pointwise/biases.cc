#include "kernels/pointwise/biases.h"

#include "core/element.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;
using core::to_element;
using core::to_float;

template <class T>
void add_bias(RowShape shape, const T* bias, T* y) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    T* y_D = y + row * shape.width;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      y_D[i] = to_element<T>(to_float(y_D[i]) + to_float(bias[i]));
    }
  }
}

template <class T>
void column_sums(RowShape shape, const T* x, float* sums) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = x + row * shape.width;
    for (std::int64_t i = 0; i < shape.width; ++i) sums[i] += to_float(x_D[i]);
  }
}

template <class T>
void add_residual(std::int64_t count, const float* x, const T* residual, T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = to_element<T>(x[i] + to_float(residual[i]));
}

template <class T>
void scale(std::int64_t count, float factor, T* x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = to_element<T>(to_float(x[i]) * factor);
}

template WithoutWork<decltype(kernels::add_bias<float>)> add_bias;
template WithoutWork<decltype(kernels::add_bias<Bf16>)> add_bias;
template WithoutWork<decltype(kernels::add_bias<F16>)> add_bias;
template WithoutWork<decltype(kernels::column_sums<float>)> column_sums;
template WithoutWork<decltype(kernels::column_sums<Bf16>)> column_sums;
template WithoutWork<decltype(kernels::column_sums<F16>)> column_sums;
template WithoutWork<decltype(kernels::add_residual<float>)> add_residual;
template WithoutWork<decltype(kernels::add_residual<Bf16>)> add_residual;
template WithoutWork<decltype(kernels::add_residual<F16>)> add_residual;
template WithoutWork<decltype(kernels::scale<float>)> scale;
template WithoutWork<decltype(kernels::scale<Bf16>)> scale;
template WithoutWork<decltype(kernels::scale<F16>)> scale;

}  // namespace fm::kernels::FM_SIMD
