#include "kernels/pointwise/rmsnorm.h"

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
void rmsnorm_rstd(RowShape shape, const T* x, double eps, float* rstd) {
  const auto width = static_cast<float>(shape.width);
  const auto eps32 = static_cast<float>(eps);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = x + row * shape.width;
    const float squares =
        lane_sum<float>(shape.width, [=](auto i) { return to_float(x_D[i]) * to_float(x_D[i]); });
    rstd[row] = 1.0F / std::sqrt(squares / width + eps32);
  }
}

namespace {

template <NormGain kGain, class T>
[[gnu::always_inline]] inline float gain_of(T weight) {
  return kGain == NormGain::kWeight ? to_float(weight) : 1.0F + to_float(weight);
}

template <NormGain kGain, class T>
void apply(RowShape shape, const T* x, const T* weight, const float* rstd, T* y) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = x + row * shape.width;
    T* y_D = y + row * shape.width;
    const float scale = rstd[row];
    for (std::int64_t i = 0; i < shape.width; ++i) {
      y_D[i] = to_element<T>(gain_of<kGain>(weight[i]) * (to_float(x_D[i]) * scale));
    }
  }
}

template <NormGain kGain, class T>
void backward(RowShape shape, const RmsnormBackward<T>& at) {
  const auto width = static_cast<float>(shape.width);
  const T* weight = at.weight;
  float* dweight = at.dweight_sum;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const T* x_D = at.x + row * shape.width;
    const float* dy_D = at.dy + row * shape.width;
    T* dx_D = at.dx + row * shape.width;
    const float rstd = at.rstd[row];
    const float dot = lane_sum<float>(shape.width, [=](auto i) {
      return dy_D[i] * gain_of<kGain>(weight[i]) * (to_float(x_D[i]) * rstd);
    });
    const float mean = dot / width;
    for (std::int64_t i = 0; i < shape.width; ++i)
      dweight[i] += dy_D[i] * (to_float(x_D[i]) * rstd);
    if (at.residual == nullptr) {
      for (std::int64_t i = 0; i < shape.width; ++i) {
        dx_D[i] = to_element<T>(
            rstd * (dy_D[i] * gain_of<kGain>(weight[i]) - to_float(x_D[i]) * rstd * mean));
      }
      continue;
    }
    const T* residual_D = at.residual + row * shape.width;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      dx_D[i] =
          to_element<T>(to_float(residual_D[i]) + rstd * (dy_D[i] * gain_of<kGain>(weight[i]) -
                                                          to_float(x_D[i]) * rstd * mean));
    }
  }
}

}  // namespace

template <class T>
void rmsnorm_apply(RowShape shape, const T* x, NormWeight<T> weight, const float* rstd, T* y) {
  switch (weight.gain) {
    case NormGain::kWeight: apply<NormGain::kWeight>(shape, x, weight.data, rstd, y); break;
    case NormGain::kOnePlusWeight:
      apply<NormGain::kOnePlusWeight>(shape, x, weight.data, rstd, y);
      break;
  }
}

template <class T>
void rmsnorm_backward(RowShape shape, const RmsnormBackward<T>& at) {
  switch (at.gain) {
    case NormGain::kWeight: backward<NormGain::kWeight>(shape, at); break;
    case NormGain::kOnePlusWeight: backward<NormGain::kOnePlusWeight>(shape, at); break;
  }
}

template WithoutWork<decltype(kernels::rmsnorm_rstd<float>)> rmsnorm_rstd;
template WithoutWork<decltype(kernels::rmsnorm_rstd<Bf16>)> rmsnorm_rstd;
template WithoutWork<decltype(kernels::rmsnorm_rstd<F16>)> rmsnorm_rstd;
template WithoutWork<decltype(kernels::rmsnorm_apply<float>)> rmsnorm_apply;
template WithoutWork<decltype(kernels::rmsnorm_apply<Bf16>)> rmsnorm_apply;
template WithoutWork<decltype(kernels::rmsnorm_apply<F16>)> rmsnorm_apply;
template WithoutWork<decltype(kernels::rmsnorm_backward<float>)> rmsnorm_backward;
template WithoutWork<decltype(kernels::rmsnorm_backward<Bf16>)> rmsnorm_backward;
template WithoutWork<decltype(kernels::rmsnorm_backward<F16>)> rmsnorm_backward;

}  // namespace fm::kernels::FM_SIMD
