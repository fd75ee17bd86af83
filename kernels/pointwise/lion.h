// Lion (arXiv 2302.06675): g = grad * grad_scale;
//   p -= lr weight_decay p;  p -= lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
// sign(0) is 0, as in the paper; DeepSpeed moves such a weight by lr, one way on the CPU and the
// other on the GPU.
#pragma once

#include <cstdint>

namespace fm::kernels {

struct LionStep {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double weight_decay = 0.0;
  float grad_scale = 1.0F;
};

struct LionSlice {
  float* param = nullptr;
  const float* grad = nullptr;
  float* exp_avg = nullptr;
  std::int64_t count = 0;
};

// Pure per element.
void lion(const LionStep& step, const LionSlice& slice);

}  // namespace fm::kernels
