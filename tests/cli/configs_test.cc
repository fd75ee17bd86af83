// Every file of configs/ is read and mapped.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/deepspeed/ds_config.h"
#include "core/text.h"
#include "engine/plan/batch_triad.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

engine::TrainOptions read(const std::string& name, PrecisionFlag precision = {}) {
  engine::TrainOptions options;
  apply_ds_config(load_config_text(std::string(FM_CONFIGS) + "/" + name), {precision}, {}, options);
  return options;
}

TEST(Configs, EveryFileIsReadAndMapped) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FM_CONFIGS)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    const engine::TrainOptions options = read(name);
    EXPECT_GT(engine::resolve_batch(options.batch, 2).train_batch, 0) << name;
    const std::string notes = core::join(options.notes, "\n");
    EXPECT_EQ(notes.find("unknown"), std::string::npos) << name << ": " << notes;
    ++files;
  }
  EXPECT_GE(files, 8);
}

TEST(Configs, ZeroFilesDifferInTheStageOnly) {
  for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
    const engine::TrainOptions options = read("zero" + std::to_string(zero_stage) + ".json");
    EXPECT_EQ(options.zero_stage, zero_stage);
    EXPECT_EQ(options.batch.micro_batch, 8);
    EXPECT_EQ(engine::resolve_batch(options.batch, 2).train_batch, 16);
    EXPECT_EQ(options.optimizer.lr, 1e-3);
    EXPECT_EQ(options.optimizer.weight_decay, 0.1);
    EXPECT_EQ(options.scheduler.rule, &optim::kWarmupCosineLr);
    EXPECT_EQ(options.scheduler.total_num_steps, options.train_steps);
    EXPECT_TRUE(options.notes.empty()) << core::join(options.notes, "\n");
  }
}

// transformers' TrainingArguments, and get_linear_schedule_with_warmup.
TEST(Configs, FineTuningIsTheTrainers) {
  for (const char* name : {"sft.json", "lora.json"}) {
    const engine::TrainOptions options = read(name);
    EXPECT_EQ(options.optimizer.rule, &optim::kAdamW);
    EXPECT_EQ(options.optimizer.lr, 5e-5);
    EXPECT_EQ(options.optimizer.weight_decay, 0.0);
    EXPECT_EQ(options.optimizer.betas, (std::array{0.9, 0.999}));
    EXPECT_EQ(options.gradient_clipping, 1.0);
    EXPECT_EQ(options.scheduler.rule, &optim::kLinear);
    EXPECT_EQ(options.batch.micro_batch, 8);
    EXPECT_EQ(options.zero_stage, 2);
    EXPECT_EQ(options.element, core::DType::kF32);
    EXPECT_EQ(options.lora.r, std::string(name) == "lora.json" ? 16 : 0);
  }
  engine::TrainOptions given;
  TrainerArguments flags;
  flags.learning_rate = 2e-4;
  flags.weight_decay = 0.1;
  flags.bf16 = true;
  apply_ds_config(load_config_text(std::string(FM_CONFIGS) + "/lora.json"), {}, flags, given);
  EXPECT_EQ(given.optimizer.lr, 2e-4);
  EXPECT_TRUE(given.no_decay.norm && given.no_decay.bias && !given.no_decay.embedding);
  EXPECT_EQ(given.element, core::DType::kBF16);
}

TEST(Configs, PipelineFillsWithEightMicroBatches) {
  const engine::TrainOptions options = read("pipeline.json");
  EXPECT_EQ(options.zero_stage, 1);
  EXPECT_EQ(engine::resolve_batch(options.batch, 2).accumulation, 8);
  EXPECT_TRUE(options.notes.empty()) << core::join(options.notes, "\n");
}

// FMEngine's own file asks for bf16.
TEST(Configs, LlamaIsReadAsItIs) {
  EXPECT_EQ(read("llama.json", core::DType::kF32).element, core::DType::kF32);
  const engine::TrainOptions options = read("llama.json");
  EXPECT_EQ(options.element, core::DType::kBF16);
  EXPECT_EQ(options.zero_stage, 0);
  EXPECT_EQ(engine::resolve_batch(options.batch, 2).accumulation, 2);
  EXPECT_EQ(options.optimizer.betas[0], 0.9);
  EXPECT_EQ(options.optimizer.betas[1], 0.95);
  EXPECT_TRUE(options.optimizer.decoupled);
  EXPECT_TRUE(options.recompute);
  EXPECT_EQ(options.scheduler.rule, &optim::kWarmupLr);
  const std::string notes = core::join(options.notes, "\n");
  EXPECT_TRUE(holds(notes, "ignored lr-decay-style, warmup, min_lr"));
  EXPECT_EQ(notes.find("unknown"), std::string::npos) << notes;
}

double parameters(const std::string& name) {
  std::ifstream file(std::string(FM_CONFIGS) + "/models/" + name);
  const nlohmann::json config = nlohmann::json::parse(file);
  const double hidden = config["hidden_size"];
  const double q = config["num_attention_heads"].get<double>() * config["head_dim"].get<double>();
  const double kv = config["num_key_value_heads"].get<double>() * config["head_dim"].get<double>();
  const double ffn = config["intermediate_size"];
  const double block = hidden * (2 * q + 2 * kv + 3 * ffn + 2);
  const double matrices = config["tie_word_embeddings"].get<bool>() ? 1 : 2;
  return config["num_hidden_layers"].get<double>() * block + hidden +
         matrices * config["vocab_size"].get<double>() * hidden;
}

TEST(Configs, ModelsHaveTheSizeOfTheirName) {
  EXPECT_NEAR(parameters("llama-5m-bytes.json"), 5.0e6, 0.2e6);
  EXPECT_NEAR(parameters("llama-1b.json"), 1'235'814'400, 1);  // Llama 3.2 1B's model card: 1.24 B
}

}  // namespace
}  // namespace fm::cli
