// Adam and AdamW (arXiv 1412.6980, 1711.05101) in fp32, in the form of DeepSpeed's CPU Adam
// (csrc/includes/cpu_adam.h), one division and one root per element; the coefficients are computed
// in fp64 and rounded once, as torch does:
//   g = grad * grad_scale;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   u = m / (sqrt(v) (1 / sqrt(c2)) + eps);  p -= (lr / c1) u + (lr weight_decay) p
// With WeightDecay::kL2 instead g += weight_decay p first and p -= (lr / c1) u.
#pragma once

#include <cstdint>

namespace fm::kernels {

enum class WeightDecay : std::uint8_t { kDecoupled, kL2 };

struct AdamwStep {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  WeightDecay mode = WeightDecay::kDecoupled;
  double correction1 = 1.0;  // c1 = 1 - beta1^step; 1: no bias correction
  double correction2 = 1.0;  // c2 = 1 - beta2^step
  float grad_scale = 1.0F;   // clipping factor
};

struct AdamwSlice {
  float* param = nullptr;
  const float* grad = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  std::int64_t count = 0;
};

// Pure per element: any cut into slices gives the same bits. Infinities and NaN propagate.
void adamw(const AdamwStep& step, const AdamwSlice& slice);

}  // namespace fm::kernels
