// The line that says what the optimizer will do.
#include <gtest/gtest.h>

#include "optim/optimizer.h"

namespace fm::optim {
namespace {

TEST(Describe, NamesTheRuleTheScheduleAndTheClipping) {
  OptimizerOptions adam{.lr = 3e-4, .weight_decay = 0.1, .betas = {0.9, 0.95}};
  const SchedulerOptions warmup{.rule = &kWarmupLr, .warmup_num_steps = 20};
  EXPECT_EQ(describe(adam, warmup, 1.0),
            "AdamW (decoupled decay), lr 0.0003, betas 0.9 0.95, eps 1e-08, weight decay 0.1, "
            "WarmupLR (log) 0 -> 0.0003 over 20 steps, clipping 1");
  adam.decoupled = false;
  adam.bias_correction = false;
  EXPECT_EQ(describe(adam, {}, 0.0),
            "Adam (L2 decay), lr 0.0003, betas 0.9 0.95, eps 1e-08, no bias correction, "
            "weight decay 0.1, constant lr, no clipping");
}

TEST(Describe, SgdNamesWhatItWasGiven) {
  OptimizerOptions sgd{.rule = &kSgd, .lr = 0.5, .momentum = 0.9, .nesterov = true};
  EXPECT_EQ(describe(sgd, {}, 0.25),
            "SGD, lr 0.5, momentum 0.9, Nesterov, weight decay 0, constant lr, clipping 0.25");
  sgd.nesterov = false;
  sgd.dampening = 0.125;
  EXPECT_EQ(describe(sgd, {}, 0.25),
            "SGD, lr 0.5, momentum 0.9, dampening 0.125, weight decay 0, constant lr, "
            "clipping 0.25");
}

// A warm-up of one step is one of two (DeepSpeed); the limits are those of learning_rate.
TEST(Describe, SchedulesThatFallSayWhereTheyEnd) {
  const OptimizerOptions adam{.lr = 0.5};
  const SchedulerOptions decay{.rule = &kWarmupDecayLr,
                               .warmup_min_lr = 0.25,
                               .warmup_num_steps = 1,
                               .total_num_steps = 50,
                               .warmup_type = WarmupType::kLinear};
  const std::string fixed =
      "AdamW (decoupled decay), lr 0.5, betas 0.9 0.999, eps 1e-08, weight decay 0, ";
  EXPECT_EQ(describe(adam, decay, 0.0),
            fixed +
                "WarmupDecayLR (linear) 0.25 -> 0.001 over 2 steps -> 0.25 at step 50, "
                "no clipping");
  const SchedulerOptions cosine{.rule = &kWarmupCosineLr,
                                .warmup_num_steps = 4,
                                .total_num_steps = 10,
                                .warmup_min_ratio = 0.25,
                                .cos_min_ratio = 0.125};
  EXPECT_EQ(describe(adam, cosine, 0.0),
            fixed +
                "WarmupCosineLR (log) 0.125 -> 0.5 over 4 steps -> 0.0625 at step 10, "
                "no clipping");
}

}  // namespace
}  // namespace fm::optim
