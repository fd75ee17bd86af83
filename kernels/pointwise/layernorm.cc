#include "kernels/pointwise/layernorm.h"

#include <cmath>

#include "core/element.h"
#include "kernels/rows.h"
#include "kernels/without_work.h"

namespace fm::kernels::FM_SIMD {

using core::Bf16;
using core::F16;
using core::to_element;
using core::to_float;

template <class T>
void layernorm_statistics(RowShape shape, const T* x, double eps, float* mean, float* rstd) {
  const auto width = static_cast<float>(shape.width);
  const auto eps32 = static_cast<float>(eps);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = x + row * shape.width;
    const float sum = lane_sum<float>(shape.width, [=](auto i) { return to_float(x_D[i]); });
    const float center = sum / width;
    const float squares = lane_sum<float>(shape.width, [=](auto i) {
      return (to_float(x_D[i]) - center) * (to_float(x_D[i]) - center);
    });
    mean[row] = center;
    rstd[row] = 1.0F / std::sqrt(squares / width + eps32);
  }
}

template <class T>
void layernorm_apply(RowShape shape, const LayernormApply<T>& at) {
  const T* weight = at.weight;
  const T* bias = at.bias;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = at.x + row * shape.width;
    T* y_D = at.y + row * shape.width;
    const float mean = at.mean[row];
    const float rstd = at.rstd[row];
    if (bias == nullptr) {
      for (std::int64_t i = 0; i < shape.width; ++i) {
        y_D[i] = to_element<T>((to_float(x_D[i]) - mean) * rstd * to_float(weight[i]));
      }
      continue;
    }
    for (std::int64_t i = 0; i < shape.width; ++i) {
      y_D[i] =
          to_element<T>((to_float(x_D[i]) - mean) * rstd * to_float(weight[i]) + to_float(bias[i]));
    }
  }
}

template <class T>
void layernorm_backward(RowShape shape, const LayernormBackward<T>& at) {
  const auto width = static_cast<float>(shape.width);
  const T* weight = at.weight;
  float* dweight = at.dweight_sum;
  float* dbias = at.dbias_sum;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = at.x + row * shape.width;
    const float* dy_D = at.dy + row * shape.width;
    const T* residual_D = at.residual == nullptr ? nullptr : at.residual + row * shape.width;
    T* dx_D = at.dx + row * shape.width;
    const float mean = at.mean[row];
    const float rstd = at.rstd[row];
    const float sum =
        lane_sum<float>(shape.width, [=](auto i) { return dy_D[i] * to_float(weight[i]); }) / width;
    const float dot =
        lane_sum<float>(shape.width,
                        [=](auto i) {
                          return dy_D[i] * to_float(weight[i]) * ((to_float(x_D[i]) - mean) * rstd);
                        }) /
        width;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      dweight[i] += dy_D[i] * ((to_float(x_D[i]) - mean) * rstd);
    }
    const std::int64_t biased = dbias == nullptr ? 0 : shape.width;
    for (std::int64_t i = 0; i < biased; ++i) dbias[i] += dy_D[i];
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const float normed = (to_float(x_D[i]) - mean) * rstd;
      const float residual = residual_D == nullptr ? 0.0F : to_float(residual_D[i]);
      dx_D[i] =
          to_element<T>(residual + rstd * (dy_D[i] * to_float(weight[i]) - sum - normed * dot));
    }
  }
}

template WithoutWork<decltype(kernels::layernorm_statistics<float>)> layernorm_statistics;
template WithoutWork<decltype(kernels::layernorm_statistics<Bf16>)> layernorm_statistics;
template WithoutWork<decltype(kernels::layernorm_statistics<F16>)> layernorm_statistics;
template WithoutWork<decltype(kernels::layernorm_apply<float>)> layernorm_apply;
template WithoutWork<decltype(kernels::layernorm_apply<Bf16>)> layernorm_apply;
template WithoutWork<decltype(kernels::layernorm_apply<F16>)> layernorm_apply;
template WithoutWork<decltype(kernels::layernorm_backward<float>)> layernorm_backward;
template WithoutWork<decltype(kernels::layernorm_backward<Bf16>)> layernorm_backward;
template WithoutWork<decltype(kernels::layernorm_backward<F16>)> layernorm_backward;

}  // namespace fm::kernels::FM_SIMD
