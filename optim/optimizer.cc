#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "kernels/pointwise/muon.h"
#include "kernels/pointwise/optimizers.h"
#include "optim/newton_schulz.h"

namespace fm::optim {
namespace {

using Moments = std::vector<std::string>;
using core::concat;

// A rule reads as many moments as its row names, and whoever calls it provides them.
void check_moments(const UpdateSlice& slice, int needed) {
  for (int moment = 0; moment < needed; ++moment) {
    FM_CHECK(slice.moment[moment] != nullptr, "a rule of ", needed, " moments has no moment ",
             moment);
  }
}

double correction(const OptimizerOptions& options, double beta, std::int64_t step) {
  return options.bias_correction ? 1.0 - std::pow(beta, static_cast<double>(step)) : 1.0;
}

void update_adamw(const core::Work& work, const OptimizerOptions& options,
                  const UpdateScalars& scalars, const UpdateSlice& slice) {
  check_moments(slice, 2);
  const auto [beta1, beta2] = scalars.betas.value_or(options.betas);
  kernels::AdamwStep step;
  step.lr = scalars.lr;
  step.beta1 = beta1;
  step.beta2 = beta2;
  step.eps = options.eps;
  step.weight_decay = slice.decay ? options.weight_decay : 0.0;
  step.mode = options.decoupled ? kernels::WeightDecay::kDecoupled : kernels::WeightDecay::kL2;
  step.correction1 = correction(options, beta1, scalars.step);
  step.correction2 = correction(options, beta2, scalars.step);
  step.grad_scale = scalars.grad_scale;
  kernels::adamw(work, step,
                 {slice.param, slice.grad, slice.moment[0], slice.moment[1], slice.count.count()});
}

std::string describe_adamw(const OptimizerOptions& options) {
  return concat(options.decoupled ? "AdamW (decoupled decay)" : "Adam (L2 decay)", ", lr ",
                options.lr, ", betas ", options.betas[0], " ", options.betas[1], ", eps ",
                options.eps, options.bias_correction ? "" : ", no bias correction");
}

constexpr OptimizerParam kAdamWParams[] = {{"betas", &OptimizerOptions::betas},
                                           {"eps", &OptimizerOptions::eps},
                                           {"adam_w_mode", &OptimizerOptions::decoupled},
                                           {"bias_correction", &OptimizerOptions::bias_correction}};

void update_sgd(const core::Work& work, const OptimizerOptions& options,
                const UpdateScalars& scalars, const UpdateSlice& slice) {
  check_moments(slice, options.momentum == 0.0 ? 0 : 1);
  kernels::SgdStep step;
  step.lr = scalars.lr;
  step.momentum = options.momentum;
  step.dampening = options.dampening;
  step.weight_decay = slice.decay ? options.weight_decay : 0.0;
  step.lookahead = options.nesterov ? kernels::Lookahead::kNesterov : kernels::Lookahead::kPlain;
  step.first = scalars.step == 1;
  step.grad_scale = scalars.grad_scale;
  kernels::sgd(work, step, {slice.param, slice.grad, slice.moment[0], slice.count.count()});
}

std::string describe_sgd(const OptimizerOptions& options) {
  return concat("SGD, lr ", options.lr, ", momentum ", options.momentum,
                options.dampening == 0.0 ? "" : concat(", dampening ", options.dampening),
                options.nesterov ? ", Nesterov" : "");
}

constexpr OptimizerParam kSgdParams[] = {{"momentum", &OptimizerOptions::momentum},
                                         {"dampening", &OptimizerOptions::dampening},
                                         {"nesterov", &OptimizerOptions::nesterov}};

void update_lion(const core::Work& work, const OptimizerOptions& options,
                 const UpdateScalars& scalars, const UpdateSlice& slice) {
  check_moments(slice, 1);
  const auto [beta1, beta2] = scalars.betas.value_or(options.betas);
  kernels::lion(work,
                {.lr = scalars.lr,
                 .beta1 = beta1,
                 .beta2 = beta2,
                 .weight_decay = slice.decay ? options.weight_decay : 0.0,
                 .grad_scale = scalars.grad_scale},
                {slice.param, slice.grad, slice.moment[0], slice.count.count()});
}

constexpr OptimizerParam kLionParams[] = {{"betas", &OptimizerOptions::betas}};

void update_adagrad(const core::Work& work, const OptimizerOptions& options,
                    const UpdateScalars& scalars, const UpdateSlice& slice) {
  check_moments(slice, 1);
  const auto before = static_cast<double>(scalars.step - 1);
  kernels::adagrad(work,
                   {.lr = scalars.lr / (1.0 + before * options.lr_decay),
                    .eps = options.eps,
                    .weight_decay = slice.decay ? options.weight_decay : 0.0,
                    .grad_scale = scalars.grad_scale},
                   {slice.param, slice.grad, slice.moment[0], slice.count.count()});
}

constexpr OptimizerParam kAdagradParams[] = {{"eps", &OptimizerOptions::eps},
                                             {"lr_decay", &OptimizerOptions::lr_decay}};

void update_lamb(const core::Work& work, const OptimizerOptions& options,
                 const UpdateScalars& scalars, const UpdateSlice& slice) {
  check_moments(slice, 2);
  const auto [beta1, beta2] = scalars.betas.value_or(options.betas);
  kernels::lamb_direction(
      work,
      {.beta1 = beta1,
       .beta2 = beta2,
       .eps = options.eps,
       .eps_inside_sqrt = options.eps_inside_sqrt,
       .weight_decay = slice.decay ? options.weight_decay : 0.0,
       .grad_scale = scalars.grad_scale},
      {slice.param, slice.grad, slice.moment[0], slice.moment[1], slice.count.count()});
}

// The correction of both moments stands in the rate, outside the norms, as in DeepSpeed.
double rate_of_lamb(const OptimizerOptions& options, const UpdateScalars& scalars,
                    double param_norm, double direction_norm) {
  const auto [beta1, beta2] = scalars.betas.value_or(options.betas);
  const double corrected = scalars.lr * std::sqrt(correction(options, beta2, scalars.step)) /
                           correction(options, beta1, scalars.step);
  if (param_norm == 0.0 || direction_norm == 0.0) return corrected;
  return corrected * std::clamp(param_norm / direction_norm, options.min_coeff, options.max_coeff);
}

constexpr TensorRule kLambRule = {.rate = rate_of_lamb, .move = kernels::lamb_move};

constexpr OptimizerParam kLambParams[] = {{"betas", &OptimizerOptions::betas},
                                          {"eps", &OptimizerOptions::eps},
                                          {"bias_correction", &OptimizerOptions::bias_correction},
                                          {"eps_inside_sqrt", &OptimizerOptions::eps_inside_sqrt},
                                          {"max_coeff", &OptimizerOptions::max_coeff},
                                          {"min_coeff", &OptimizerOptions::min_coeff}};

void update_beside_muon(const core::Work& work, const OptimizerOptions& options,
                        const UpdateScalars& scalars, const UpdateSlice& slice) {
  UpdateScalars own = scalars;
  own.lr *= options.adam_rate;
  update_adamw(work, options, own, slice);
}

void begin_muon(const core::Work& work, const OptimizerOptions& options,
                const UpdateScalars& scalars, const UpdateSlice& slice) {
  check_moments(slice, 1);
  kernels::muon_begin(work,
                      {.keep = static_cast<float>(options.momentum),
                       .take = static_cast<float>(1.0 - options.momentum),
                       .grad_scale = scalars.grad_scale},
                      slice.count.count(), slice.grad, slice.moment[0]);
}

void move_by_muon(const core::Work& work, const OptimizerOptions& options,
                  const UpdateScalars& scalars, const core::ParamEntry& matrix,
                  const UpdateSlice& slice) {
  FM_CHECK(matrix.shape.size() == 2, matrix.name, " has ", matrix.shape.size(), " dims, not 2");
  const double tall = static_cast<double>(matrix.shape[0]) / static_cast<double>(matrix.shape[1]);
  const auto rate = static_cast<float>(scalars.lr * std::sqrt(std::max(1.0, tall)));
  const auto keep =
      static_cast<float>(1.0 - (slice.decay ? scalars.lr * options.weight_decay : 0.0));
  kernels::muon_move(work, keep, rate, slice.count.count(), slice.grad, slice.param);
}

// The embedding and the head are left to AdamW, as in DeepSpeed.
bool muon_moves(const core::ParamEntry& entry) {
  return entry.kind == core::ParamKind::kMatrix && entry.shape.size() == 2;
}

constexpr MatrixRule kMuonRule = {.moves = muon_moves,
                                  .begin = begin_muon,
                                  .room = newton_schulz_room,
                                  .finish = newton_schulz,
                                  .move = move_by_muon};

constexpr OptimizerParam kMuonParams[] = {{"momentum", &OptimizerOptions::momentum},
                                          {"betas", &OptimizerOptions::betas},
                                          {"eps", &OptimizerOptions::eps},
                                          {"adam_w_mode", &OptimizerOptions::decoupled},
                                          {"adam_rate", &OptimizerOptions::adam_rate}};

std::string describe_muon(const OptimizerOptions& options) {
  return concat("Muon for hidden matrices, lr ", options.lr, ", momentum ", options.momentum,
                "; AdamW for the rest, lr ", options.lr * options.adam_rate, ", betas ",
                options.betas[0], " ", options.betas[1], ", eps ", options.eps);
}

std::string text_of(double value) { return concat(value); }
std::string text_of(bool value) { return value ? "on" : "off"; }
std::string text_of(const OptimizerParam::Numbers& value) {
  return concat(value[0], " ", value[1]);
}

}  // namespace

constexpr OptimizerRow kAdamW = {.name = "AdamW",
                                 .moments = [](const OptimizerOptions&) -> Moments {
                                   return {"exp_avg", "exp_avg_sq"};
                                 },
                                 .params = kAdamWParams,
                                 .update = update_adamw,
                                 .describe = describe_adamw};

constexpr OptimizerRow kSgd = {.name = "SGD",
                               .moments = [](const OptimizerOptions& options) -> Moments {
                                 return options.momentum == 0.0 ? Moments{}
                                                                : Moments{"momentum_buffer"};
                               },
                               .params = kSgdParams,
                               .update = update_sgd,
                               .describe = describe_sgd};

constexpr OptimizerRow kLion = {
    .name = "Lion",
    .moments = [](const OptimizerOptions&) -> Moments { return {"exp_avg"}; },
    .params = kLionParams,
    .update = update_lion};

constexpr OptimizerRow kAdagrad = {
    .name = "Adagrad",
    .moments = [](const OptimizerOptions&) -> Moments { return {"sum"}; },
    .params = kAdagradParams,
    .update = update_adagrad};

constexpr OptimizerRow kLamb = {.name = "Lamb",
                                .moments = [](const OptimizerOptions&) -> Moments {
                                  return {"exp_avg", "exp_avg_sq"};
                                },
                                .params = kLambParams,
                                .update = update_lamb,
                                .by_tensor = &kLambRule};

// Of a matrix the first is the momentum, and the second stays zero.
constexpr OptimizerRow kMuon = {.name = "Muon",
                                .moments = [](const OptimizerOptions&) -> Moments {
                                  return {"exp_avg", "exp_avg_sq"};
                                },
                                .params = kMuonParams,
                                .update = update_beside_muon,
                                .by_matrix = &kMuonRule,
                                .describe = describe_muon};

std::vector<std::string> moments_of(const OptimizerOptions& options) {
  Moments names;
  if (options.rule->moments != nullptr) names = options.rule->moments(options);
  FM_CHECK(names.size() <= kMostMoments, options.rule->name, " has ", names.size(), " moments");
  return names;
}

void update(const core::Work& work, const OptimizerOptions& options, const UpdateScalars& scalars,
            const UpdateSlice& slice) {
  FM_CHECK(scalars.step >= 1, "updates are counted from 1, not from ", scalars.step);
  FM_CHECK(slice.param != nullptr && slice.grad != nullptr && slice.count.count() >= 0,
           "an update of ", slice.count.count(), " elements needs parameters and a gradient");
  options.rule->update(work, options, scalars, slice);
}

std::string describe(const OptimizerOptions& options) {
  const OptimizerRow& rule = *options.rule;
  if (rule.describe != nullptr) return rule.describe(options);
  std::string text = concat(rule.name, ", lr ", options.lr);
  for (const OptimizerParam& param : rule.params) {
    text += concat(", ", param.name, " ",
                   std::visit([&](auto field) { return text_of(options.*field); }, param.value));
  }
  return text;
}

std::string describe(const OptimizerOptions& optimizer, const SchedulerOptions& scheduler,
                     double clipping) {
  using core::concat;
  return concat(describe(optimizer), ", weight decay ", optimizer.weight_decay, ", ",
                describe(scheduler, optimizer.lr), ", ",
                clipping > 0.0 ? concat("clipping ", clipping) : "no clipping");
}

}  // namespace fm::optim
