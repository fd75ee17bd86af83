// Golden vectors made by running deepspeed/runtime/lr_schedules.py: the learning rate in effect
// for optimizer steps 1, 2, 3, ... (six digits).
#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace fm::optim {
namespace {

constexpr double kDigits = 5e-7;

void expect_rates(const SchedulerOptions& options, double base_lr,
                  const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(learning_rate(options, base_lr, static_cast<std::int64_t>(step)), expected[step],
                kDigits)
        << "optimizer step " << step + 1;
  }
}

TEST(LrSchedule, ConstantIsTheOptimizersRate) {
  expect_rates({.kind = SchedulerKind::kConstant}, 0.25, {0.25, 0.25, 0.25});
}

TEST(LrSchedule, WarmupLogMatchesDeepSpeed) {
  expect_rates({.kind = SchedulerKind::kWarmup, .warmup_max_lr = 1.0, .warmup_num_steps = 5}, 9.0,
               {0, 0, 0.430677, 0.682606, 0.861353, 1, 1});
}

TEST(LrSchedule, WarmupLinearMatchesDeepSpeed) {
  expect_rates({.kind = SchedulerKind::kWarmup,
                .warmup_min_lr = 0.1,
                .warmup_max_lr = 1.0,
                .warmup_num_steps = 5,
                .warmup_type = WarmupType::kLinear},
               9.0, {0.1, 0.1, 0.28, 0.46, 0.64, 0.82, 1, 1});
}

TEST(LrSchedule, WarmupWithoutMaximumReachesTheOptimizersRate) {
  expect_rates({.kind = SchedulerKind::kWarmup, .warmup_num_steps = 5}, 3.0,
               {0, 0, 3 * 0.4306765581, 3 * 0.6826061945, 3 * 0.8613531161, 3, 3});
}

TEST(LrSchedule, WarmupOfOneStepLastsTwo) {  // DeepSpeed: effective number is max(2, n)
  expect_rates({.kind = SchedulerKind::kWarmup,
                .warmup_max_lr = 1.0,
                .warmup_num_steps = 1,
                .warmup_type = WarmupType::kLinear},
               9.0, {0, 0, 0.5, 1, 1});
}

TEST(LrSchedule, WarmupDecayMatchesDeepSpeed) {
  expect_rates({.kind = SchedulerKind::kWarmupDecay,
                .warmup_max_lr = 1.0,
                .warmup_num_steps = 4,
                .total_num_steps = 10,
                .warmup_type = WarmupType::kLinear},
               9.0, {0, 0, 0.25, 0.5, 0.75, 1, 0.833333, 0.666667, 0.5, 0.333333, 0.166667, 0, 0});
}

TEST(LrSchedule, WarmupDecayWithoutMaximumReachesOneThousandth) {
  const SchedulerOptions options{
      .kind = SchedulerKind::kWarmupDecay, .warmup_num_steps = 4, .total_num_steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate(options, 9.0, 5), 0.001);
}

TEST(LrSchedule, WarmupCosineMatchesDeepSpeed) {
  expect_rates({.kind = SchedulerKind::kWarmupCosine,
                .warmup_num_steps = 4,
                .total_num_steps = 10,
                .cos_min_ratio = 0.1,
                .warmup_type = WarmupType::kLinear},
               1.0, {0, 0, 0.25, 0.5, 0.75, 0.939711, 0.775, 0.55, 0.325, 0.160289, 0.1, 0.1});
}

TEST(LrSchedule, WarmupCosineStartsAtZeroWhateverTheRatio) {
  expect_rates({.kind = SchedulerKind::kWarmupCosine,
                .warmup_num_steps = 4,
                .total_num_steps = 10,
                .warmup_min_ratio = 0.2,
                .warmup_type = WarmupType::kLinear},
               1.0, {0, 0.2, 0.4, 0.6});
}

TEST(LrSchedule, WarmupCosineScalesTheOptimizersRate) {
  SchedulerOptions options{.kind = SchedulerKind::kWarmupCosine,
                           .warmup_num_steps = 4,
                           .total_num_steps = 10,
                           .cos_min_ratio = 0.1,
                           .warmup_type = WarmupType::kLinear};
  EXPECT_NEAR(learning_rate(options, 6e-4, 6), 6e-4 * 0.775, 1e-9);
}

}  // namespace
}  // namespace fm::optim
