// The schedules of Hugging Face's Trainer (--lr_scheduler_type), formula by formula as
// transformers/optimization.py: a factor of the optimizer's rate, by the updates applied so far.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "optim/lr_schedule.h"

namespace fm::optim {
namespace {

using core::concat;
using S = SchedulerOptions;
using std::numbers::pi;

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

// Share of what follows the warm-up.
double progress(const S& options, std::int64_t step) {
  return ratio(step - options.warmup_steps, options.total_num_steps - options.warmup_steps);
}

using Factor = double(const S&, double base_lr, std::int64_t step);

// All but one rise in a straight line first.
template <Factor* kFactor>
Rates risen(const S& options, double base_lr, std::int64_t step) {
  if (step < options.warmup_steps) return {base_lr * ratio(step, options.warmup_steps)};
  return {base_lr * kFactor(options, base_lr, step)};
}

double flat(const S&, double, std::int64_t) { return 1.0; }

double linear(const S& options, double, std::int64_t step) {
  const std::int64_t span = options.total_num_steps - options.warmup_steps;
  return std::max(0.0, ratio(options.total_num_steps - step, span));
}

double wave(double cycles, double done) { return 0.5 * (1.0 + std::cos(pi * cycles * 2.0 * done)); }

double cosine(const S& options, double, std::int64_t step) {
  return std::max(0.0, wave(options.num_cycles.value_or(0.5), progress(options, step)));
}

double restarts(const S& options, double, std::int64_t step) {
  const double done = progress(options, step);
  if (done >= 1.0) return 0.0;
  const double in_cycle = std::fmod(options.num_cycles.value_or(1.0) * done, 1.0);
  return std::max(0.0, 0.5 * (1.0 + std::cos(pi * in_cycle)));
}

double cosine_above(const S& options, double base_lr, std::int64_t step) {
  const double least =
      options.min_lr ? *options.min_lr / base_lr : options.min_lr_rate.value_or(0.0);
  const double factor = wave(options.num_cycles.value_or(0.5), progress(options, step));
  return std::max(0.0, factor * (1.0 - least) + least);
}

double polynomial(const S& options, double base_lr, std::int64_t step) {
  if (step > options.total_num_steps) return options.lr_end / base_lr;
  const auto span = static_cast<double>(options.total_num_steps - options.warmup_steps);
  const double done = static_cast<double>(step - options.warmup_steps);
  const double left = span == 0.0 ? 0.0 : 1.0 - done / span;  // torch would divide by zero
  return ((base_lr - options.lr_end) * std::pow(left, options.power) + options.lr_end) / base_lr;
}

constexpr std::int64_t kTimescale = 10'000;

double inverse_sqrt(const S& options, double, std::int64_t step) {
  const std::int64_t scale =
      options.timescale.value_or(options.warmup_steps > 0 ? options.warmup_steps : kTimescale);
  const auto shifted = static_cast<double>(step + scale - options.warmup_steps);
  return 1.0 / std::sqrt(shifted / static_cast<double>(scale));
}

std::int64_t stable_steps(const S& options) {
  return options.num_stable_steps.value_or(options.total_num_steps - options.warmup_steps -
                                           options.num_decay_steps);
}

double rise_of(const S& options, double done) {
  switch (options.rise) {
    case Shape::kLinear: return done;
    case Shape::kCosine: return 0.5 * (1.0 - std::cos(pi * done));
    case Shape::kOneMinusSqrt: break;
  }
  return 1.0 - std::sqrt(1.0 - done);
}

double fall_of(const S& options, double done) {
  switch (options.fall) {
    case Shape::kLinear: return 1.0 - done;
    case Shape::kCosine: return wave(options.num_cycles.value_or(0.5), done);
    case Shape::kOneMinusSqrt: break;
  }
  return 1.0 - std::sqrt(done);
}

Rates stable_decay(const S& options, double base_lr, std::int64_t step) {
  const auto above = [&](double factor) {
    return Rates{base_lr *
                 std::max(0.0, factor * (1.0 - options.min_lr_ratio) + options.min_lr_ratio)};
  };
  if (step < options.warmup_steps)
    return above(rise_of(options, ratio(step, options.warmup_steps)));
  const std::int64_t falls = options.warmup_steps + stable_steps(options);
  if (step < falls) return {base_lr};
  if (step < falls + options.num_decay_steps) {
    return above(fall_of(options, ratio(step - falls, options.num_decay_steps)));
  }
  return {base_lr * options.min_lr_ratio};
}

std::string describe_constant(const S&, double) { return "constant lr"; }

// "linear to step 300 after 20 warm-up steps"
std::string describe_trainers(const S& options, double /*base_lr*/) {
  const bool ends = options.rule != &kConstantWithWarmup && options.rule != &kInverseSqrt;
  return concat(options.rule->name, ends ? concat(" to step ", options.total_num_steps) : "",
                " after ", options.warmup_steps, " warm-up steps");
}

constexpr SchedulerParam kWarmup = {"warmup_steps", &S::warmup_steps};
constexpr SchedulerParam kTotal = {"total_num_steps", &S::total_num_steps};
constexpr SchedulerParam kCycles = {"num_cycles", &S::num_cycles};
constexpr SchedulerParam kWarmupOnly[] = {kWarmup};
constexpr SchedulerParam kLinearParams[] = {kWarmup, kTotal};
constexpr SchedulerParam kCosineParams[] = {kWarmup, kTotal, kCycles};
constexpr SchedulerParam kMinLrParams[] = {
    kWarmup, kTotal, kCycles, {"min_lr", &S::min_lr}, {"min_lr_rate", &S::min_lr_rate}};
constexpr SchedulerParam kPolynomialParams[] = {
    kWarmup, kTotal, {"lr_end", &S::lr_end}, {"power", &S::power}};
constexpr SchedulerParam kInverseSqrtParams[] = {kWarmup, {"timescale", &S::timescale}};
constexpr SchedulerParam kStableParams[] = {kWarmup,
                                            kTotal,
                                            kCycles,
                                            {"num_decay_steps", &S::num_decay_steps},
                                            {"num_stable_steps", &S::num_stable_steps},
                                            {"min_lr_ratio", &S::min_lr_ratio},
                                            {"warmup_type", &S::rise},
                                            {"decay_type", &S::fall}};

constexpr const SchedulerRow* kRows[] = {&kLinear,      &kCosine,          &kCosineWithRestarts,
                                         &kPolynomial,  &kConstant,        &kConstantWithWarmup,
                                         &kInverseSqrt, &kCosineWithMinLr, &kWarmupStableDecay};

Rates constant(const S&, double base_lr, std::int64_t) { return {base_lr}; }

}  // namespace

constexpr SchedulerRow kConstant = {"constant", {}, constant, describe_constant};
constexpr SchedulerRow kConstantWithWarmup = {"constant_with_warmup", kWarmupOnly, risen<flat>,
                                              describe_trainers};
constexpr SchedulerRow kLinear = {"linear", kLinearParams, risen<linear>, describe_trainers};
constexpr SchedulerRow kCosine = {"cosine", kCosineParams, risen<cosine>, describe_trainers};
constexpr SchedulerRow kCosineWithRestarts = {"cosine_with_restarts", kCosineParams,
                                              risen<restarts>, describe_trainers};
constexpr SchedulerRow kCosineWithMinLr = {"cosine_with_min_lr", kMinLrParams, risen<cosine_above>,
                                           describe_trainers};
constexpr SchedulerRow kPolynomial = {"polynomial", kPolynomialParams, risen<polynomial>,
                                      describe_trainers};
constexpr SchedulerRow kInverseSqrt = {"inverse_sqrt", kInverseSqrtParams, risen<inverse_sqrt>,
                                       describe_trainers};
constexpr SchedulerRow kWarmupStableDecay = {"warmup_stable_decay", kStableParams, stable_decay,
                                             describe_trainers};

std::span<const SchedulerRow* const> trainer_schedules() { return kRows; }

}  // namespace fm::optim
