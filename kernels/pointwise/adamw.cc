#include "kernels/pointwise/adamw.h"

#include <cmath>

#include "kernels/pointwise/memory_walks.h"

namespace fm::kernels::FM_SIMD {
namespace {

template <WeightDecay kMode>
void run(const AdamwStep& step, const AdamwSlice& slice) {
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto rest1 = static_cast<float>(1.0 - step.beta1);
  const auto rest2 = static_cast<float>(1.0 - step.beta2);
  const auto eps = static_cast<float>(step.eps);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto decay_rate = static_cast<float>(step.lr * step.weight_decay);
  const auto rate = static_cast<float>(step.lr / step.correction1);
  const auto root_scale = static_cast<float>(1.0 / std::sqrt(step.correction2));
  const float grad_scale = step.grad_scale;
  float* __restrict param = slice.param;
  const float* __restrict grad = slice.grad;
  float* __restrict exp_avg = slice.exp_avg;
  float* __restrict exp_avg_sq = slice.exp_avg_sq;
  const auto update = [=](std::int64_t i) {
    const float p = param[i];
    float g = grad[i] * grad_scale;
    if constexpr (kMode == WeightDecay::kL2) g += decay * p;
    const float m = beta1 * exp_avg[i] + rest1 * g;
    const float v = beta2 * exp_avg_sq[i] + rest2 * g * g;
    float change = rate * (m / (std::sqrt(v) * root_scale + eps));
    if constexpr (kMode == WeightDecay::kDecoupled) change += decay_rate * p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    param[i] = p - change;
  };
  for_each_ahead(slice.count, update, param, grad, exp_avg, exp_avg_sq);
}

}  // namespace

void adamw(const AdamwStep& step, const AdamwSlice& slice) {
  switch (step.mode) {
    case WeightDecay::kDecoupled: run<WeightDecay::kDecoupled>(step, slice); break;
    case WeightDecay::kL2: run<WeightDecay::kL2>(step, slice); break;
  }
}

}  // namespace fm::kernels::FM_SIMD
