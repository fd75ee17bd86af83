#include "kernels/pointwise/optimizers.h"

#include <cmath>

#include "kernels/pointwise/memory_walks.h"

namespace fm::kernels::FM_SIMD {
namespace {

void sgd_plain(const SgdStep& step, const SgdSlice& slice) {
  const auto lr = static_cast<float>(step.lr);
  const auto decay = static_cast<float>(step.weight_decay);
  for (std::int64_t i = 0; i < slice.count; ++i) {
    const float p = slice.param[i];
    slice.param[i] = p - lr * (slice.grad[i] * step.grad_scale + decay * p);
  }
}

template <Lookahead kLookahead>
void sgd_momentum(const SgdStep& step, const SgdSlice& slice) {
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

template <WeightDecay kMode>
void adamw_by(const AdamwStep& step, const AdamwSlice& slice) {
  const auto beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2);
  const auto rest1 = static_cast<float>(1.0 - step.beta1);
  const auto rest2 = static_cast<float>(1.0 - step.beta2);
  const auto eps = static_cast<float>(step.eps);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto decay_rate = static_cast<float>(step.lr * step.weight_decay);
  const auto rate = static_cast<float>(step.lr / step.correction1);
  const auto root_scale = static_cast<float>(1.0 / std::sqrt(step.correction2));
  const float grad_scale = step.grad_scale;
  float* __restrict param = slice.param;
  const float* __restrict grad = slice.grad;
  float* __restrict exp_avg = slice.exp_avg;
  float* __restrict exp_avg_sq = slice.exp_avg_sq;
  const auto update = [=](std::int64_t i) {
    const float p = param[i];
    float g = grad[i] * grad_scale;
    if constexpr (kMode == WeightDecay::kL2) g += decay * p;
    const float m = beta1 * exp_avg[i] + rest1 * g;
    const float v = beta2 * exp_avg_sq[i] + rest2 * g * g;
    float change = rate * (m / (std::sqrt(v) * root_scale + eps));
    if constexpr (kMode == WeightDecay::kDecoupled) change += decay_rate * p;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    param[i] = p - change;
  };
  for_each_ahead(slice.count, update, param, grad, exp_avg, exp_avg_sq);
}

}  // namespace

void sgd(const SgdStep& step, const SgdSlice& slice) {
  if (step.momentum == 0.0) return sgd_plain(step, slice);
  switch (step.lookahead) {
    case Lookahead::kPlain: sgd_momentum<Lookahead::kPlain>(step, slice); break;
    case Lookahead::kNesterov: sgd_momentum<Lookahead::kNesterov>(step, slice); break;
  }
}

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

void adamw(const AdamwStep& step, const AdamwSlice& slice) {
  switch (step.mode) {
    case WeightDecay::kDecoupled: adamw_by<WeightDecay::kDecoupled>(step, slice); break;
    case WeightDecay::kL2: adamw_by<WeightDecay::kL2>(step, slice); break;
  }
}

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
