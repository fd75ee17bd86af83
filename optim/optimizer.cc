#include "optim/optimizer.h"

#include <cmath>

#include "kernels/pointwise/adamw.h"
#include "kernels/pointwise/sgd.h"

namespace fm::optim {
namespace {

double correction(const OptimizerOptions& options, double beta, std::int64_t step) {
  return options.bias_correction ? 1.0 - std::pow(beta, static_cast<double>(step)) : 1.0;
}

void update_adamw(const OptimizerOptions& options, const UpdateScalars& scalars,
                  const UpdateSlice& slice) {
  kernels::AdamwStep step;
  step.lr = scalars.lr;
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.eps = options.eps;
  step.weight_decay = slice.decay ? options.weight_decay : 0.0;
  step.mode = options.decoupled ? kernels::WeightDecay::kDecoupled : kernels::WeightDecay::kL2;
  step.correction1 = correction(options, options.beta1, scalars.step);
  step.correction2 = correction(options, options.beta2, scalars.step);
  step.grad_scale = scalars.grad_scale;
  kernels::adamw(step,
                 {slice.param, slice.grad, slice.moment[0], slice.moment[1], slice.count.count()});
}

void update_sgd(const OptimizerOptions& options, const UpdateScalars& scalars,
                const UpdateSlice& slice) {
  kernels::SgdStep step;
  step.lr = scalars.lr;
  step.momentum = options.momentum;
  step.dampening = options.dampening;
  step.weight_decay = slice.decay ? options.weight_decay : 0.0;
  step.lookahead = options.nesterov ? kernels::Lookahead::kNesterov : kernels::Lookahead::kPlain;
  step.first = scalars.step == 1;
  step.grad_scale = scalars.grad_scale;
  kernels::sgd(step, {slice.param, slice.grad, slice.moment[0], slice.count.count()});
}

}  // namespace

int moments_of(const OptimizerOptions& options) {
  switch (options.kind) {
    case OptimizerKind::kAdamW: return 2;
    case OptimizerKind::kSgd: return options.momentum != 0.0 ? 1 : 0;
  }
  return 0;
}

const char* moment_name(const OptimizerOptions& options, int index) {
  if (options.kind == OptimizerKind::kSgd) return "momentum_buffer";
  return index == 0 ? "exp_avg" : "exp_avg_sq";
}

void update(const OptimizerOptions& options, const UpdateScalars& scalars,
            const UpdateSlice& slice) {
  switch (options.kind) {
    case OptimizerKind::kAdamW: return update_adamw(options, scalars, slice);
    case OptimizerKind::kSgd: return update_sgd(options, scalars, slice);
  }
}

}  // namespace fm::optim
