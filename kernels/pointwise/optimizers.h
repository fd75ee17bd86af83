// Update rules of optimizers over one slice, each pure per element: any cut into slices gives the
// same bits.
#pragma once

#include <cstdint>

#include "core/work.h"

namespace fm::kernels {

// SGD as torch.optim.SGD: d = grad * grad_scale + weight_decay p;
// with momentum: buf = d at the first step, else momentum buf + (1 - dampening) d;
// d = nesterov ? d + momentum buf : buf. Then p -= lr d.

enum class Lookahead : std::uint8_t { kPlain, kNesterov };

struct SgdStep {
  double lr = 0.0;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  Lookahead lookahead = Lookahead::kPlain;
  bool first = false;  // no update was applied before: the momentum buffer is assigned
  float grad_scale = 1.0F;
};

struct SgdSlice {
  float* param = nullptr;
  const float* grad = nullptr;
  float* momentum = nullptr;  // null when step.momentum is 0
  std::int64_t count = 0;
};

// Pure per element.
void sgd(const core::Work& work, const SgdStep& step, const SgdSlice& slice);

// Adagrad as torch.optim.Adagrad: g = grad * grad_scale + weight_decay p;
//   sum += g^2;  p -= lr g / (sqrt(sum) + eps)
// DeepSpeed's CPU kernel leaves the decay out of the numerator; this does not.

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
void adagrad(const core::Work& work, const AdagradStep& step, const AdagradSlice& slice);

// Adam and AdamW (arXiv 1412.6980, 1711.05101) in fp32, in the form of DeepSpeed's CPU Adam
// (csrc/includes/cpu_adam.h), one division and one root per element; the coefficients are computed
// in fp64 and rounded once, as torch does:
//   g = grad * grad_scale;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   u = m / (sqrt(v) (1 / sqrt(c2)) + eps);  p -= (lr / c1) u + (lr weight_decay) p
// With WeightDecay::kL2 instead g += weight_decay p first and p -= (lr / c1) u.

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
void adamw(const core::Work& work, const AdamwStep& step, const AdamwSlice& slice);

// LAMB (arXiv 1904.00962), as DeepSpeed's fused_lamb_cuda_kernel.cu has it: g = grad * grad_scale;
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  u = m / (sqrt(v) + eps) + weight_decay p
// Then each tensor moves by its own rate: p -= rate u (zero/optimizer_shard.h).

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
void lamb_direction(const core::Work& work, const LambStep& step, const LambSlice& slice);

// p -= rate * u, `count` elements.
void lamb_move(const core::Work& work, float rate, std::int64_t count, const float* direction,
               float* param);

// Lion (arXiv 2302.06675): g = grad * grad_scale;
//   p -= lr weight_decay p;  p -= lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
// sign(0) is 0, as in the paper; DeepSpeed moves such a weight by lr, one way on the CPU and the
// other on the GPU.

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
void lion(const core::Work& work, const LionStep& step, const LionSlice& slice);

}  // namespace fm::kernels
