// Learning-rate schedules, with DeepSpeed's exact step semantics (runtime/lr_schedules.py) and
// those of Hugging Face's Trainer (transformers/optimization.py). A schedule advances after each
// update that was not skipped. Each is one row: its name, its parameters, its function.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace fm::optim {

struct SchedulerOptions;
enum class WarmupType : std::uint8_t { kLog, kLinear };
enum class Shape : std::uint8_t { kLinear, kCosine, kOneMinusSqrt };

// What an update runs with.
struct Rates {
  double lr = 0.0;
  std::optional<std::array<double, 2>> betas = std::nullopt;  // instead of the optimizer's
};

// A parameter by its name in DeepSpeed's JSON or in --lr_scheduler_kwargs, and where
// SchedulerOptions has it.
struct SchedulerParam {
  using S = SchedulerOptions;
  using Whole = std::int64_t;
  const char* name;
  std::variant<double S::*, Whole S::*, bool S::*, std::optional<double> S::*,
               std::optional<Whole> S::*, WarmupType S::*, Shape S::*>
      value;
};

// A schedule as a run chooses it. A new one is a row, in lr_schedule.cc or trainer_schedules.cc.
struct SchedulerRow {
  std::string_view name;
  std::span<const SchedulerParam> params = {};
  // Of the update that follows `applied` applied (not skipped) updates. base_lr: the optimizer's.
  Rates (*rates)(const SchedulerOptions&, double base_lr, std::int64_t applied) = nullptr;
  // "WarmupLR (log) 0 -> 0.0003 over 20 steps"
  std::string (*describe)(const SchedulerOptions&, double base_lr) = nullptr;
};

// deepspeed/runtime/lr_schedules.py: update n runs with the value of last = n - 2, the first one
// with the constructor's value.
extern const SchedulerRow kWarmupLr, kWarmupDecayLr, kWarmupCosineLr, kLrRangeTest, kOneCycle;
std::span<const SchedulerRow* const> deepspeed_schedules();

// transformers/optimization.py: update n runs with the value of step n - 1.
extern const SchedulerRow kConstant, kConstantWithWarmup, kLinear, kCosine, kCosineWithRestarts,
    kCosineWithMinLr, kPolynomial, kInverseSqrt, kWarmupStableDecay;
std::span<const SchedulerRow* const> trainer_schedules();

constexpr double kDecayMaxLr = 0.001;  // WarmupDecayLR's own default of warmup_max_lr

struct SchedulerOptions {
  const SchedulerRow* rule = &kConstant;
  // The rest counts for rules whose row names it.
  double warmup_min_lr = 0.0;
  // Without a value: WarmupLR reaches the optimizer's lr, WarmupDecayLR kDecayMaxLr.
  std::optional<double> warmup_max_lr = std::nullopt;
  std::int64_t warmup_num_steps = 1000;  // DeepSpeed's
  std::int64_t total_num_steps = 0;      // DeepSpeed's and the Trainer's
  double warmup_min_ratio = 0.0;
  double cos_min_ratio = 0.0001;
  WarmupType warmup_type = WarmupType::kLog;
  double lr_range_test_min_lr = 1e-3;
  std::int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;
  double cycle_min_lr = 0.0;
  double cycle_max_lr = 0.0;
  double decay_lr_rate = 0.0;
  std::int64_t cycle_first_step_size = 2000;
  std::optional<std::int64_t> cycle_second_step_size = std::nullopt;  // none: as the first
  std::int64_t cycle_first_stair_count = 0;                           // 0: no stairs
  std::optional<std::int64_t> cycle_second_stair_count = std::nullopt;
  std::int64_t decay_step_size = 0;  // 0: no decay
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8;
  double cycle_max_mom = 0.9;
  double decay_mom_rate = 0.0;
  // The Trainer's.
  std::int64_t warmup_steps = 0;
  std::optional<double> num_cycles = std::nullopt;  // none: 0.5, or 1 restart
  std::optional<double> min_lr = std::nullopt;
  std::optional<double> min_lr_rate = std::nullopt;
  double lr_end = 1e-7;
  double power = 1.0;
  std::optional<std::int64_t> timescale = std::nullopt;  // none: warmup_steps, or 10,000
  std::int64_t num_decay_steps = 0;
  std::optional<std::int64_t> num_stable_steps = std::nullopt;  // none: what the others leave
  double min_lr_ratio = 0.0;
  Shape rise = Shape::kLinear;  // "warmup_type" of warmup_stable_decay
  Shape fall = Shape::kCosine;  // "decay_type"
};

// Steps of DeepSpeed's warm-up, at least two.
std::int64_t warmup_steps(const SchedulerOptions& options);

Rates rates(const SchedulerOptions& options, double base_lr, std::int64_t applied);
std::string describe(const SchedulerOptions& options, double base_lr);

}  // namespace fm::optim
