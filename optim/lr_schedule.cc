#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fm::optim {
namespace {

// Share of the warm-up that is done, 0 to 1; `last` counts from 0.
double warmup_share(const SchedulerOptions& options, std::int64_t last) {
  const auto steps = static_cast<double>(warmup_steps(options));
  const auto at = static_cast<double>(last);
  return options.warmup_type == WarmupType::kLog ? std::log(at + 1.0) / std::log(steps)
                                                 : at / steps;
}

double warmup(const SchedulerOptions& options, double max_lr, std::int64_t last) {
  const double min_lr = options.warmup_min_lr;
  const std::int64_t steps = warmup_steps(options);
  if (last < 0) return min_lr;
  if (last < steps) return min_lr + (max_lr - min_lr) * warmup_share(options, last);
  if (options.kind == SchedulerKind::kWarmup) return max_lr;
  const auto left = static_cast<double>(options.total_num_steps - last);
  const auto span = static_cast<double>(std::max<std::int64_t>(1, options.total_num_steps - steps));
  return min_lr + (max_lr - min_lr) * std::max(0.0, left / span);
}

double cosine(const SchedulerOptions& options, double base_lr, std::int64_t last) {
  if (last < 0) return 0.0;
  const std::int64_t steps = warmup_steps(options);
  if (last < steps) {
    const double floor = options.warmup_min_ratio;
    return base_lr * (floor + (1.0 - floor) * warmup_share(options, last));
  }
  const auto done = static_cast<double>(last - steps + 1);
  const auto span = static_cast<double>(std::max<std::int64_t>(1, options.total_num_steps - steps));
  const double wave = (1.0 + std::cos(std::numbers::pi * std::min(1.0, done / span))) / 2.0;
  return base_lr * std::max(0.0, options.cos_min_ratio + (1.0 - options.cos_min_ratio) * wave);
}

}  // namespace

std::int64_t warmup_steps(const SchedulerOptions& options) {
  return std::max<std::int64_t>(2, options.warmup_num_steps);
}

double highest_lr(const SchedulerOptions& options, double base_lr) {
  switch (options.kind) {
    case SchedulerKind::kConstant:
    case SchedulerKind::kWarmupCosine: return base_lr;
    case SchedulerKind::kWarmup: return options.warmup_max_lr.value_or(base_lr);
    case SchedulerKind::kWarmupDecay: return options.warmup_max_lr.value_or(0.001);
  }
  return base_lr;
}

double learning_rate(const SchedulerOptions& options, double base_lr, std::int64_t applied) {
  const std::int64_t last = applied - 1;
  switch (options.kind) {
    case SchedulerKind::kConstant: return base_lr;
    case SchedulerKind::kWarmup:
    case SchedulerKind::kWarmupDecay: return warmup(options, highest_lr(options, base_lr), last);
    case SchedulerKind::kWarmupCosine: return cosine(options, base_lr, last);
  }
  return base_lr;
}

}  // namespace fm::optim
