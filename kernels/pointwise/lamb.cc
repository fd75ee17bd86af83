#include "kernels/pointwise/lamb.h"

#include <cmath>

namespace fm::kernels::FM_SIMD {

void lamb_direction(const LambStep& step, const LambSlice& slice) {
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto take1 = static_cast<float>(1.0 - step.beta1);
  const auto take2 = static_cast<float>(1.0 - step.beta2);
  const auto decay = static_cast<float>(step.weight_decay);
  const float inside = step.eps_inside_sqrt ? static_cast<float>(step.eps) : 0.0F;
  const float outside = step.eps_inside_sqrt ? 0.0F : static_cast<float>(step.eps);
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const float g = slice.grad[i] * step.grad_scale;
    const float m = beta1 * slice.exp_avg[i] + take1 * g;
    const float v = beta2 * slice.exp_avg_sq[i] + take2 * (g * g);
    slice.exp_avg[i] = m;
    slice.exp_avg_sq[i] = v;
    slice.grad[i] = m / (std::sqrt(v + inside) + outside) + decay * slice.param[i];
  }
}

void lamb_move(float rate, std::int64_t count, const float* direction, float* param) {
  for (std::int64_t i = 0; i < count; ++i) param[i] -= rate * direction[i];
}

}  // namespace fm::kernels::FM_SIMD
