#include "kernels/pointwise/sgd.h"

namespace fm::kernels::FM_SIMD {
namespace {

void run_plain(const SgdStep& step, const SgdSlice& slice) {
  const auto lr = static_cast<float>(step.lr);
  const auto decay = static_cast<float>(step.weight_decay);
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const float p = slice.param[i];
    slice.param[i] = p - lr * (slice.grad[i] * step.grad_scale + decay * p);
  }
}

template <Lookahead kLookahead>
void run_momentum(const SgdStep& step, const SgdSlice& slice) {
  const auto lr = static_cast<float>(step.lr);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto momentum = static_cast<float>(step.momentum);
  const float keep = step.first ? 0.0F : momentum;
  const float take = step.first ? 1.0F : static_cast<float>(1.0 - step.dampening);
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const float p = slice.param[i];
    const float d = slice.grad[i] * step.grad_scale + decay * p;
    const float before = step.first ? 0.0F : slice.momentum[i];
    const float buffer = keep * before + take * d;
    slice.momentum[i] = buffer;
    slice.param[i] = p - lr * (kLookahead == Lookahead::kNesterov ? d + momentum * buffer : buffer);
  }
}

}  // namespace

void sgd(const SgdStep& step, const SgdSlice& slice) {
  if (step.momentum == 0.0) return run_plain(step, slice);
  switch (step.lookahead) {
    case Lookahead::kPlain: run_momentum<Lookahead::kPlain>(step, slice); break;
    case Lookahead::kNesterov: run_momentum<Lookahead::kNesterov>(step, slice); break;
  }
}

}  // namespace fm::kernels::FM_SIMD
