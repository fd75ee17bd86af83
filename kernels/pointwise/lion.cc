#include "kernels/pointwise/lion.h"

namespace fm::kernels::FM_SIMD {

void lion(const LionStep& step, const LionSlice& slice) {
  const auto lr = static_cast<float>(step.lr);
  const auto keep = static_cast<float>(1.0 - step.lr * step.weight_decay);
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto take1 = static_cast<float>(1.0 - step.beta1);
  const auto take2 = static_cast<float>(1.0 - step.beta2);
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const float g = slice.grad[i] * step.grad_scale;
    const float m = slice.exp_avg[i];
    const float c = beta1 * m + take1 * g;
    const float up = c > 0.0F ? lr : 0.0F;
    const float down = c < 0.0F ? lr : 0.0F;
    slice.param[i] = slice.param[i] * keep - (up - down);
    slice.exp_avg[i] = beta2 * m + take2 * g;
  }
}

}  // namespace fm::kernels::FM_SIMD
