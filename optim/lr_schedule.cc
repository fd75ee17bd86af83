#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"

namespace fm::optim {
namespace {

using core::concat;
using S = SchedulerOptions;

// DeepSpeed's counter at the update that follows `applied` others.
std::int64_t last_of(std::int64_t applied) { return applied - 1; }

// Share of the warm-up that is done, 0 to 1; `last` counts from 0.
double warmup_share(const S& options, std::int64_t last) {
  const auto steps = static_cast<double>(warmup_steps(options));
  const auto at = static_cast<double>(last);
  return options.warmup_type == WarmupType::kLog ? std::log(at + 1.0) / std::log(steps)
                                                 : at / steps;
}

double fall_span(const S& options) {
  const std::int64_t left = options.total_num_steps - warmup_steps(options);
  return static_cast<double>(std::max<std::int64_t>(1, left));
}

// From warmup_min_lr to `max_lr`, where it stays.
double rise(const S& options, double max_lr, std::int64_t last) {
  const double min_lr = options.warmup_min_lr;
  if (last < 0) return min_lr;
  if (last >= warmup_steps(options)) return max_lr;
  return min_lr + (max_lr - min_lr) * warmup_share(options, last);
}

Rates warmup(const S& options, double base_lr, std::int64_t applied) {
  return {rise(options, options.warmup_max_lr.value_or(base_lr), last_of(applied))};
}

Rates warmup_decay(const S& options, double /*base_lr*/, std::int64_t applied) {
  const double min_lr = options.warmup_min_lr;
  const double max_lr = options.warmup_max_lr.value_or(kDecayMaxLr);
  const std::int64_t last = last_of(applied);
  if (last < warmup_steps(options)) return {rise(options, max_lr, last)};
  const auto left = static_cast<double>(options.total_num_steps - last);
  return {min_lr + (max_lr - min_lr) * std::max(0.0, left / fall_span(options))};
}

Rates warmup_cosine(const S& options, double base_lr, std::int64_t applied) {
  const std::int64_t last = last_of(applied);
  if (last < 0) return {0.0};
  const std::int64_t steps = warmup_steps(options);
  if (last < steps) {
    const double floor = options.warmup_min_ratio;
    return {base_lr * (floor + (1.0 - floor) * warmup_share(options, last))};
  }
  const double done = static_cast<double>(last - steps + 1) / fall_span(options);
  const double wave = (1.0 + std::cos(std::numbers::pi * std::min(1.0, done))) / 2.0;
  const double share = options.cos_min_ratio + (1.0 - options.cos_min_ratio) * wave;
  return {base_lr * std::max(0.0, share)};
}

Rates range_test(const S& options, double /*base_lr*/, std::int64_t applied) {
  const double intervals =
      static_cast<double>(applied) / static_cast<double>(options.lr_range_test_step_size);
  const double risen = options.lr_range_test_staircase ? std::floor(intervals) : intervals;
  return {options.lr_range_test_min_lr * (1.0 + options.lr_range_test_step_rate * risen)};
}

std::int64_t second_part(const S& options) {
  return options.cycle_second_step_size.value_or(options.cycle_first_step_size);
}

// Height in the cycle, 0 to 1: up in the first part, down in the second.
double cycle_height(const S& options, std::int64_t at) {
  const auto first = static_cast<double>(options.cycle_first_step_size);
  const auto second = static_cast<double>(second_part(options));
  const double total = first + second;
  const double place = static_cast<double>(at) / total;
  const double x = 1.0 + place - std::floor(1.0 + place);
  const double ratio = first / total;
  const bool up = x <= ratio;
  const std::int64_t stairs =
      up ? options.cycle_first_stair_count
         : options.cycle_second_stair_count.value_or(options.cycle_first_stair_count);
  if (stairs <= 0) return up ? x / ratio : (x - 1.0) / (ratio - 1.0);
  const double inside = std::fmod(static_cast<double>(at), total);
  const auto count = static_cast<double>(stairs);
  const double step = inside <= first ? inside * count / first : (total - inside) * count / second;
  return std::floor(step) / count;
}

constexpr double kCycleBeta2 = 0.99;

Rates one_cycle(const S& options, double /*base_lr*/, std::int64_t applied) {
  const std::int64_t size = options.cycle_first_step_size + second_part(options);
  const std::int64_t last = last_of(applied);
  const auto with = [&](double lr, double momentum) {
    Rates out{lr};
    if (options.cycle_momentum) out.betas = {momentum, kCycleBeta2};
    return out;
  };
  if (last < size) {
    const double height = cycle_height(options, applied);
    const double lr = options.cycle_min_lr + (options.cycle_max_lr - options.cycle_min_lr) * height;
    const double momentum =
        options.cycle_max_mom - (options.cycle_max_mom - options.cycle_min_mom) * height;
    // The constructor sets the lowest momentum beside the lowest rate.
    return with(lr, last < 0 ? options.cycle_min_mom : momentum);
  }
  const double intervals =
      options.decay_step_size == 0
          ? 0.0
          : static_cast<double>(last - size + 1) / static_cast<double>(options.decay_step_size);
  return with(options.cycle_min_lr / (1.0 + options.decay_lr_rate * intervals),
              options.cycle_max_mom * (1.0 + options.decay_mom_rate * intervals));
}

std::string warmup_words(const char* name, const S& options, double first, double last) {
  return concat(name, options.warmup_type == WarmupType::kLog ? " (log) " : " (linear) ", first,
                " -> ", last, " over ", warmup_steps(options), " steps");
}

std::string end_words(const S& options, double lr) {
  return concat(" -> ", lr, " at step ", options.total_num_steps);
}

std::string describe_warmup(const S& options, double base_lr) {
  return warmup_words("WarmupLR", options, options.warmup_min_lr,
                      options.warmup_max_lr.value_or(base_lr));
}

std::string describe_decay(const S& options, double /*base_lr*/) {
  const double highest = options.warmup_max_lr.value_or(kDecayMaxLr);
  return warmup_words("WarmupDecayLR", options, options.warmup_min_lr, highest) +
         end_words(options, options.warmup_min_lr);
}

std::string describe_cosine(const S& options, double base_lr) {
  return warmup_words("WarmupCosineLR", options, options.warmup_min_ratio * base_lr, base_lr) +
         end_words(options, options.cos_min_ratio * base_lr);
}

std::string describe_range_test(const S& options, double /*base_lr*/) {
  return concat("LRRangeTest from ", options.lr_range_test_min_lr, ", x ",
                options.lr_range_test_step_rate, " more every ", options.lr_range_test_step_size,
                " steps", options.lr_range_test_staircase ? " (staircase)" : "");
}

std::string describe_one_cycle(const S& options, double /*base_lr*/) {
  return concat("OneCycle ", options.cycle_min_lr, " -> ", options.cycle_max_lr, " over ",
                options.cycle_first_step_size, " steps -> ", options.cycle_min_lr, " over ",
                second_part(options), " steps",
                options.cycle_momentum
                    ? concat(", beta1 ", options.cycle_max_mom, " -> ", options.cycle_min_mom)
                    : "");
}

constexpr SchedulerParam kMinLr = {"warmup_min_lr", &S::warmup_min_lr};
constexpr SchedulerParam kMaxLr = {"warmup_max_lr", &S::warmup_max_lr};
constexpr SchedulerParam kSteps = {"warmup_num_steps", &S::warmup_num_steps};
constexpr SchedulerParam kTotal = {"total_num_steps", &S::total_num_steps};
constexpr SchedulerParam kType = {"warmup_type", &S::warmup_type};
constexpr SchedulerParam kWarmupParams[] = {kMinLr, kMaxLr, kSteps, kType};
constexpr SchedulerParam kDecayParams[] = {kTotal, kMinLr, kMaxLr, kSteps, kType};
constexpr SchedulerParam kCosineParams[] = {kTotal,
                                            {"warmup_min_ratio", &S::warmup_min_ratio},
                                            kSteps,
                                            {"cos_min_ratio", &S::cos_min_ratio},
                                            kType};
constexpr SchedulerParam kRangeTestParams[] = {
    {"lr_range_test_min_lr", &S::lr_range_test_min_lr},
    {"lr_range_test_step_size", &S::lr_range_test_step_size},
    {"lr_range_test_step_rate", &S::lr_range_test_step_rate},
    {"lr_range_test_staircase", &S::lr_range_test_staircase}};
constexpr SchedulerParam kOneCycleParams[] = {
    {"cycle_min_lr", &S::cycle_min_lr},
    {"cycle_max_lr", &S::cycle_max_lr},
    {"decay_lr_rate", &S::decay_lr_rate},
    {"cycle_first_step_size", &S::cycle_first_step_size},
    {"cycle_second_step_size", &S::cycle_second_step_size},
    {"cycle_first_stair_count", &S::cycle_first_stair_count},
    {"cycle_second_stair_count", &S::cycle_second_stair_count},
    {"decay_step_size", &S::decay_step_size},
    {"cycle_momentum", &S::cycle_momentum},
    {"cycle_min_mom", &S::cycle_min_mom},
    {"cycle_max_mom", &S::cycle_max_mom},
    {"decay_mom_rate", &S::decay_mom_rate}};

constexpr const SchedulerRow* kRows[] = {&kWarmupLr, &kWarmupDecayLr, &kWarmupCosineLr,
                                         &kLrRangeTest, &kOneCycle};

}  // namespace

constexpr SchedulerRow kWarmupLr = {"WarmupLR", kWarmupParams, warmup, describe_warmup};
constexpr SchedulerRow kWarmupDecayLr = {"WarmupDecayLR", kDecayParams, warmup_decay,
                                         describe_decay};
constexpr SchedulerRow kWarmupCosineLr = {"WarmupCosineLR", kCosineParams, warmup_cosine,
                                          describe_cosine};
constexpr SchedulerRow kLrRangeTest = {"LRRangeTest", kRangeTestParams, range_test,
                                       describe_range_test};
constexpr SchedulerRow kOneCycle = {"OneCycle", kOneCycleParams, one_cycle, describe_one_cycle};

std::span<const SchedulerRow* const> deepspeed_schedules() { return kRows; }

std::int64_t warmup_steps(const S& options) {
  return std::max<std::int64_t>(2, options.warmup_num_steps);
}

Rates rates(const S& options, double base_lr, std::int64_t applied) {
  FM_CHECK(applied >= 0, "a schedule follows applied updates, and ", applied, " are none");
  return options.rule->rates(options, base_lr, applied);
}

std::string describe(const S& options, double base_lr) {
  return options.rule->describe(options, base_lr);
}

}  // namespace fm::optim
