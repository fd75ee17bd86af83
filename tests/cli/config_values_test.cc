// --print_config: what a run has, and where it is from.
#include "cli/deepspeed/config_values.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/flags/arguments.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

// "value | origin" by path.
std::map<std::string, std::string> listed(const std::string& json, const Words& flags,
                                          int dp_size = 1) {
  Words words = {"--print_config", "--model_config", "c.json", "--deepspeed_config", json};
  words.insert(words.end(), flags.begin(), flags.end());
  Command command = parse_command(words);
  EXPECT_EQ(command.action, Action::kPrintConfig);
  complete(command.config, command.options, dp_size, 64);
  std::map<std::string, std::string> out;
  for (const ConfigValue& each : command.config) out[each.path] = each.value + " | " + each.from;
  const auto parsed = nlohmann::json::parse(json_of(command.config));
  EXPECT_EQ(parsed.size(), out.size());
  for (const ConfigValue& each : command.config) {
    EXPECT_EQ(parsed[each.path]["value"], nlohmann::json::parse(each.value));
    EXPECT_NE(text_of(command.config).find("\n" + each.path + " "),
              &each == &command.config.front() ? 0 : std::string::npos);
  }
  return out;
}

TEST(ConfigValues, SayWhereEachIsFrom) {
  const auto at = listed(R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
  "stage3_prefetch_bucket_size": "auto", "round_robin_gradients": true},
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": 2, "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "eps": 1e-6}}, "my key": "a\"b"})",
                         {"--learning_rate", "2e-5", "--bf16"}, 3);
  EXPECT_EQ(at.at("optimizer.params.lr"), "2e-05 | --learning_rate");
  EXPECT_TRUE(at.at("optimizer.params.eps").starts_with("1e-6 | "))
      << at.at("optimizer.params.eps");
  EXPECT_TRUE(at.at("optimizer.params.eps").ends_with(":5"));
  EXPECT_EQ(at.at("bf16.enabled"), "true | --bf16");
  EXPECT_EQ(at.at("train_micro_batch_size_per_gpu"), "8 | Trainer's default");
  EXPECT_EQ(at.at("train_batch_size"), "48 | from the other two batch keys and the data ranks");
  EXPECT_TRUE(at.at("gradient_accumulation_steps").ends_with(":4"));
  EXPECT_EQ(at.at("gradient_clipping"), core::concat(engine::kGradientClipping, " | default"));
  EXPECT_EQ(at.at("zero_optimization.reduce_bucket_size"),
            "4096 | Trainer, from the hidden size; it has no effect");
  EXPECT_EQ(at.at("zero_optimization.stage3_prefetch_bucket_size"),
            "3686 | Trainer, from the hidden size; here it is the largest unit");
  EXPECT_NE(at.at("zero_optimization.round_robin_gradients").find(":2, no effect: "),
            std::string::npos);
  EXPECT_NE(at.at("my key").find("not a key of DeepSpeed's"), std::string::npos);
}

// transformers' TrainingArguments: lr_scheduler_type linear, warmup_steps 0.
TEST(ConfigValues, ListTheSchedulerThatARunHas) {
  const auto at = listed("{}", {"--train_steps", "30"});
  EXPECT_EQ(at.at("scheduler.type"), "\"linear\" | Trainer, --lr_scheduler_type");
  EXPECT_EQ(at.at("scheduler.params.warmup_steps"), "0 | Trainer, --lr_scheduler_type");
  const auto own = listed(R"({"scheduler": {"type": "WarmupLR", "params": {}}})", {});
  EXPECT_TRUE(own.at("scheduler.type").starts_with("\"WarmupLR\" | "));
  EXPECT_FALSE(own.contains("scheduler.params.warmup_steps"));
}

TEST(ConfigValues, ThePrecisionThatIsForcedIsShown) {
  EXPECT_EQ(listed(R"({"bf16": {"enabled": true}})", {"--precision", "fp32"}).at("precision"),
            "\"fp32\" | --precision");
}

}  // namespace
}  // namespace fm::cli
