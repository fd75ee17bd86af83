// Adagrad as torch.optim.Adagrad: g = grad * grad_scale + weight_decay p;
//   sum += g^2;  p -= lr g / (sqrt(sum) + eps)
// DeepSpeed's CPU kernel leaves the decay out of the numerator; this does not.
#pragma once

#include <cstdint>

namespace fm::kernels {

struct AdagradStep {
  double lr = 0.0;
  double eps = 1e-10;
  double weight_decay = 0.0;
  float grad_scale = 1.0F;
};

struct AdagradSlice {
  float* param = nullptr;
  const float* grad = nullptr;
  float* sum = nullptr;
  std::int64_t count = 0;
};

// Pure per element.
void adagrad(const AdagradStep& step, const AdagradSlice& slice);

}  // namespace fm::kernels
