// SGD as torch.optim.SGD: d = grad * grad_scale + weight_decay p;
// with momentum: buf = d at the first step, else momentum buf + (1 - dampening) d;
// d = nesterov ? d + momentum buf : buf. Then p -= lr d.
#pragma once

#include <cstdint>

namespace fm::kernels {

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
void sgd(const SgdStep& step, const SgdSlice& slice);

}  // namespace fm::kernels
