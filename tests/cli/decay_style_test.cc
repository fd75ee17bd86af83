// FMEngine's lr-decay-style, warmup and min_lr.
#include <gtest/gtest.h>

#include "cli/flags/arguments.h"
#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

engine::TrainOptions options_of(const std::string& json, const Words& flags = {}) {
  Words words{"--model_config", "c", "--data_path", "d", "--output_dir", "out"};
  words.insert(words.end(), {"--train_steps", "100", "--deepspeed_config", json});
  words.insert(words.end(), flags.begin(), flags.end());
  return parse_command(words).options;
}

std::string with_adam(const std::string& rest) {
  return "{optimizer: {type: \"AdamW\", params: {lr: 1e-3\n}}, " + rest + "\n}";
}

double rate_of(const engine::TrainOptions& options, std::int64_t applied) {
  return options.scheduler.rule->rates(options.scheduler, options.optimizer.lr, applied).lr;
}

// The lr rises to 1e-3 in 10 of 100 steps; half of the other 90 later cosine and linear are in the
// middle between 1e-3 and 2e-4.
TEST(DecayStyle, DecidesWhereThereIsNoScheduler) {
  const std::string rest = ", warmup: 0.1, min_lr: 2e-4";
  for (const char* style : {"cosine", "linear"}) {
    const auto options =
        options_of(with_adam(std::string("\"lr-decay-style\": \"") + style + "\"" + rest));
    EXPECT_NEAR(rate_of(options, 5), 5e-4, 1e-12) << style;
    EXPECT_NEAR(rate_of(options, 10), 1e-3, 1e-12) << style;
    EXPECT_NEAR(rate_of(options, 55), 6e-4, 1e-12) << style;
    EXPECT_NEAR(rate_of(options, 100), 2e-4, 1e-12) << style;
  }
  const auto constant = options_of(with_adam("lr_decay_style: \"constant\", warmup: 0.1"));
  EXPECT_NEAR(rate_of(constant, 5), 5e-4, 1e-12);
  EXPECT_NEAR(rate_of(constant, 90), 1e-3, 1e-12);
}

TEST(DecayStyle, ASchedulerOrAFlagDecidesBeforeIt) {
  const std::string style = "\"lr-decay-style\": \"cosine\", warmup: 0.1";
  const auto block = options_of(with_adam("scheduler: {type: \"WarmupLR\"\n}, " + style));
  EXPECT_EQ(block.scheduler.rule, &optim::kWarmupLr);
  EXPECT_TRUE(
      holds(core::join(block.notes, "\n"), "ignored lr-decay-style, warmup: the scheduler"));
  const auto flag = options_of(with_adam(style), {"--lr_scheduler_type", "constant"});
  EXPECT_EQ(flag.scheduler.rule, &optim::kConstant);
  EXPECT_TRUE(holds(core::join(flag.notes, "\n"), "ignored lr-decay-style, warmup: the flags"));
  const auto alone = options_of(with_adam("min_lr: 1e-4"));
  EXPECT_TRUE(holds(core::join(alone.notes, "\n"), "ignored min_lr: without lr-decay-style"));
}

TEST(DecayStyle, RefusesOtherWordsAndShares) {
  const std::string style = "\"lr-decay-style\": ";
  EXPECT_TRUE(holds(refusal_of([&] { options_of(with_adam(style + "\"step\"")); }),
                    "lr-decay-style must be cosine, linear or constant"));
  EXPECT_TRUE(holds(refusal_of([&] { options_of(with_adam(style + "\"cosine\", warmup: 100")); }),
                    "warmup must lie in [0, 1)"));
}

}  // namespace
}  // namespace fm::cli
