// LAMB (arXiv 1904.00962), as DeepSpeed's fused_lamb_cuda_kernel.cu has it: g = grad * grad_scale;
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  u = m / (sqrt(v) + eps) + weight_decay p
// Then each tensor moves by its own rate: p -= rate u (zero/optimizer_shard.h).
#pragma once

#include <cstdint>

namespace fm::kernels {

struct LambStep {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool eps_inside_sqrt = false;  // sqrt(v + eps) instead
  double weight_decay = 0.0;
  float grad_scale = 1.0F;
};

struct LambSlice {
  const float* param = nullptr;
  float* grad = nullptr;  // becomes u
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  std::int64_t count = 0;
};

// Pure per element.
void lamb_direction(const LambStep& step, const LambSlice& slice);

// p -= rate * u, `count` elements.
void lamb_move(float rate, std::int64_t count, const float* direction, float* param);

}  // namespace fm::kernels
