// Golden vectors made by running deepspeed/runtime/lr_schedules.py: the learning rate in effect
// for optimizer steps 1, 2, 3, ... (six digits).
#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <vector>

#include "optim/optimizer.h"

namespace fm::optim {
namespace {

constexpr double kDigits = 5e-7;

void expect_rates(const SchedulerOptions& options, double base_lr,
                  const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(rates(options, base_lr, static_cast<std::int64_t>(step)).lr, expected[step],
                kDigits)
        << "optimizer step " << step + 1;
  }
}

TEST(LrSchedule, ConstantIsTheOptimizersRate) {
  expect_rates({.rule = &kConstant}, 0.25, {0.25, 0.25, 0.25});
}

TEST(LrSchedule, WarmupLogMatchesDeepSpeed) {
  expect_rates({.rule = &kWarmupLr, .warmup_max_lr = 1.0, .warmup_num_steps = 5}, 9.0,
               {0, 0, 0.430677, 0.682606, 0.861353, 1, 1});
}

TEST(LrSchedule, WarmupLinearMatchesDeepSpeed) {
  expect_rates({.rule = &kWarmupLr,
                .warmup_min_lr = 0.1,
                .warmup_max_lr = 1.0,
                .warmup_num_steps = 5,
                .warmup_type = WarmupType::kLinear},
               9.0, {0.1, 0.1, 0.28, 0.46, 0.64, 0.82, 1, 1});
}

TEST(LrSchedule, WarmupWithoutMaximumReachesTheOptimizersRate) {
  expect_rates({.rule = &kWarmupLr, .warmup_num_steps = 5}, 3.0,
               {0, 0, 3 * 0.4306765581, 3 * 0.6826061945, 3 * 0.8613531161, 3, 3});
}

TEST(LrSchedule, WarmupOfOneStepLastsTwo) {  // DeepSpeed: effective number is max(2, n)
  expect_rates({.rule = &kWarmupLr,
                .warmup_max_lr = 1.0,
                .warmup_num_steps = 1,
                .warmup_type = WarmupType::kLinear},
               9.0, {0, 0, 0.5, 1, 1});
}

TEST(LrSchedule, WarmupDecayMatchesDeepSpeed) {
  expect_rates({.rule = &kWarmupDecayLr,
                .warmup_max_lr = 1.0,
                .warmup_num_steps = 4,
                .total_num_steps = 10,
                .warmup_type = WarmupType::kLinear},
               9.0, {0, 0, 0.25, 0.5, 0.75, 1, 0.833333, 0.666667, 0.5, 0.333333, 0.166667, 0, 0});
}

TEST(LrSchedule, WarmupDecayWithoutMaximumReachesOneThousandth) {
  const SchedulerOptions options{
      .rule = &kWarmupDecayLr, .warmup_num_steps = 4, .total_num_steps = 10};
  EXPECT_DOUBLE_EQ(rates(options, 9.0, 5).lr, 0.001);
}

TEST(LrSchedule, WarmupCosineMatchesDeepSpeed) {
  expect_rates({.rule = &kWarmupCosineLr,
                .warmup_num_steps = 4,
                .total_num_steps = 10,
                .cos_min_ratio = 0.1,
                .warmup_type = WarmupType::kLinear},
               1.0, {0, 0, 0.25, 0.5, 0.75, 0.939711, 0.775, 0.55, 0.325, 0.160289, 0.1, 0.1});
}

TEST(LrSchedule, WarmupCosineStartsAtZeroWhateverTheRatio) {
  expect_rates({.rule = &kWarmupCosineLr,
                .warmup_num_steps = 4,
                .total_num_steps = 10,
                .warmup_min_ratio = 0.2,
                .warmup_type = WarmupType::kLinear},
               1.0, {0, 0.2, 0.4, 0.6});
}

TEST(LrSchedule, WarmupCosineScalesTheOptimizersRate) {
  SchedulerOptions options{.rule = &kWarmupCosineLr,
                           .warmup_num_steps = 4,
                           .total_num_steps = 10,
                           .cos_min_ratio = 0.1,
                           .warmup_type = WarmupType::kLinear};
  EXPECT_NEAR(rates(options, 6e-4, 6).lr, 6e-4 * 0.775, 1e-9);
}

TEST(LrSchedule, RangeTestMatchesDeepSpeed) {
  SchedulerOptions options{
      .rule = &kLrRangeTest, .lr_range_test_min_lr = 0.001, .lr_range_test_step_size = 2};
  expect_rates(options, 9.0, {0.001, 0.0015, 0.002, 0.0025, 0.003});
  options.lr_range_test_staircase = true;
  expect_rates(options, 9.0, {0.001, 0.001, 0.002, 0.002, 0.003});
}

TEST(LrSchedule, OneCycleMatchesDeepSpeed) {
  SchedulerOptions options{.rule = &kOneCycle,
                           .cycle_min_lr = 0.1,
                           .cycle_max_lr = 1.0,
                           .decay_lr_rate = 0.5,
                           .cycle_first_step_size = 4,
                           .decay_step_size = 2};
  expect_rates(
      options, 9.0,
      {0.1, 0.325, 0.55, 0.775, 1, 0.775, 0.55, 0.325, 0.1, 0.08, 0.0666667, 0.0571429, 0.05});
  const std::vector<double> momenta = {0.8, 0.875, 0.85, 0.825, 0.8, 0.825, 0.85, 0.875, 0.9, 0.9};
  for (std::size_t step = 0; step < momenta.size(); ++step) {
    const auto betas = rates(options, 9.0, static_cast<std::int64_t>(step)).betas;
    ASSERT_TRUE(betas);
    EXPECT_NEAR((*betas)[0], momenta[step], kDigits) << "optimizer step " << step + 1;
    EXPECT_EQ((*betas)[1], 0.99);
  }
  options.cycle_momentum = false;
  EXPECT_FALSE(rates(options, 9.0, 3).betas);
}

TEST(LrSchedule, BetasOfTheScheduleCountInsteadOfTheOptimizers) {
  const auto updated = [](const OptimizerRow& rule, std::array<double, 2> betas,
                          const UpdateScalars& scalars) {
    std::array<float, 2> param = {1.0F, -2.0F};
    std::array<float, 2> grad = {0.5F, 0.25F};
    std::array<float, 2> first = {0.125F, -0.25F};
    std::array<float, 2> second = {0.5F, 0.75F};
    UpdateSlice slice{
        .param = param.data(), .grad = grad.data(), .moment = {}, .count = core::Elements(2)};
    slice.moment[0] = first.data();
    slice.moment[1] = second.data();
    update({}, {.rule = &rule, .betas = betas}, scalars, slice);
    return std::array{param, first, second};
  };
  for (const OptimizerRow* rule : {&kAdamW, &kLion}) {
    UpdateScalars scalars{.lr = 0.1, .step = 3};
    const auto expected = updated(*rule, {0.8, 0.99}, scalars);
    EXPECT_NE(updated(*rule, {0.9, 0.999}, scalars), expected);
    scalars.betas = {0.8, 0.99};
    EXPECT_EQ(updated(*rule, {0.9, 0.999}, scalars), expected);
  }
}

// By arithmetic: two stairs up in four steps, one down.
TEST(LrSchedule, OneCycleClimbsStairs) {
  expect_rates({.rule = &kOneCycle,
                .cycle_min_lr = 0.0,
                .cycle_max_lr = 1.0,
                .cycle_first_step_size = 4,
                .cycle_second_step_size = 2,
                .cycle_first_stair_count = 2,
                .cycle_second_stair_count = 1},
               9.0, {0, 0, 0.5, 0.5, 1, 0, 0, 0, 0});
}

}  // namespace
}  // namespace fm::optim
