// Learning-rate schedules with DeepSpeed's exact step semantics (runtime/lr_schedules.py): the
// schedule advances after each update that was not skipped, so update n runs with the value of
// last = n - 2 and the first one with the constructor's value.
#pragma once

#include <cstdint>
#include <optional>

namespace fm::optim {

enum class SchedulerKind : std::uint8_t { kConstant, kWarmup, kWarmupDecay, kWarmupCosine };
enum class WarmupType : std::uint8_t { kLog, kLinear };

struct SchedulerOptions {
  SchedulerKind kind = SchedulerKind::kConstant;
  double warmup_min_lr = 0.0;
  // Without a value: WarmupLR reaches the optimizer's lr, WarmupDecayLR 0.001.
  std::optional<double> warmup_max_lr = std::nullopt;
  std::int64_t warmup_num_steps = 1000;
  std::int64_t total_num_steps = 0;
  double warmup_min_ratio = 0.0;
  double cos_min_ratio = 0.0001;
  WarmupType warmup_type = WarmupType::kLog;
};

// Steps of the warm-up, at least two, as in DeepSpeed.
std::int64_t warmup_steps(const SchedulerOptions& options);
// What the warm-up rises to; without one the only learning rate.
double highest_lr(const SchedulerOptions& options, double base_lr);

// Learning rate of the update that follows `applied` applied (not skipped) updates.
// base_lr: the optimizer's lr.
double learning_rate(const SchedulerOptions& options, double base_lr, std::int64_t applied);

}  // namespace fm::optim
