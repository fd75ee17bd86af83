#include "kernels/pointwise/adagrad.h"

#include <cmath>

namespace fm::kernels::FM_SIMD {

void adagrad(const AdagradStep& step, const AdagradSlice& slice) {
  const auto lr = static_cast<float>(step.lr);
  const auto eps = static_cast<float>(step.eps);
  const auto decay = static_cast<float>(step.weight_decay);
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const float p = slice.param[i];
    const float g = slice.grad[i] * step.grad_scale + decay * p;
    const float sum = slice.sum[i] + g * g;
    slice.sum[i] = sum;
    slice.param[i] = p - lr * g / (std::sqrt(sum) + eps);
  }
}

}  // namespace fm::kernels::FM_SIMD
