// --config: files of flags, ours and those of other programs.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/foreign/foreign_keys.h"
#include "core/text.h"
#include "tests/cli/train_words.h"

namespace fm::cli {
namespace {

using engine::TrainOptions;

// A folder that goes with the test.
class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("fm-config-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ConfigFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  // The options of a file, with the words behind it.
  Command command(const std::string& name, const std::string& text, Words more = {}) const {
    Words words = {"--config", write(name, text)};
    words.insert(words.end(), more.begin(), more.end());
    return parse_command(words);
  }
  TrainOptions options(const std::string& name, const std::string& text, Words more = {}) const {
    return command(name, text, std::move(more)).options;
  }
  // With the folder's name left out.
  std::string refused(const std::string& name, const std::string& text, Words more = {}) const {
    std::string said = refusal_of([&] { command(name, text, more); });
    for (std::size_t at = 0; (at = said.find(folder_.string() + "/")) != std::string::npos;) {
      said.erase(at, folder_.string().size() + 1);
    }
    return said;
  }

  std::filesystem::path folder_;
};

const std::string kFlat = R"(model_config: m.json
train_file: d.jsonl
learning_rate: 2e-5
max_steps: 1e3
block_size: 512
bf16: yes
save_strategy: no
run_name: null
dataloader_num_workers: 4
lr_scheduler_kwargs: {num_cycles: 2}
lr_scheduler_type: cosine
report_to: [tensorboard, csv]
eval_steps: .5
validation_file: [a.jsonl, b.jsonl]
deepspeed: {zero_optimization: {stage: 2}}
)";

TEST_F(ConfigFile, HoldsFlagsByOurNamesAndTheTrainers) {
  const TrainOptions at = options("f.yaml", kFlat);
  EXPECT_EQ(at.model_config, "m.json");
  EXPECT_EQ(at.data_path, Words{"d.jsonl"});
  EXPECT_EQ(at.optimizer.lr, 2e-5);
  EXPECT_EQ(at.train_steps, 1000);
  EXPECT_EQ(at.max_seq_len, 512);
  EXPECT_EQ(at.element, core::DType::kBF16);
  EXPECT_FALSE(at.saves);
  EXPECT_EQ(at.scheduler.num_cycles, 2.0);
  EXPECT_EQ(at.monitors.csv.size(), 1U);
  EXPECT_EQ(at.eval_steps, 500);
  EXPECT_EQ(at.eval_data_path, (Words{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(at.zero_stage, 2);
  EXPECT_TRUE(holds(core::join(at.notes, "\n"),
                    "no effect here (docs/migration.md says why): dataloader_num_workers"));
}

TEST_F(ConfigFile, JsonIsReadToo) {
  const TrainOptions at = options("f.json", R"({"model_config": "m.json", "data_path": ["d.jsonl"],
    "max_steps": 7, "bf16": true, "max_length": 99, "eval_strategy": null})");
  EXPECT_EQ(at.train_steps, 7);
  EXPECT_EQ(at.max_seq_len, 99);
  EXPECT_EQ(at.element, core::DType::kBF16);
}

TEST_F(ConfigFile, TheCommandLineWins) {
  const TrainOptions at = options("f.yaml", kFlat,
                                  {"--max_length=64", "--validation_split", "0.1", "--fp16",
                                   "--num_train_epochs", "2", "--data_path", "x", "y"});
  EXPECT_EQ(at.max_seq_len, 64);
  EXPECT_EQ(at.data_path, (Words{"x", "y"}));
  EXPECT_EQ(at.element, core::DType::kF16);
  EXPECT_TRUE(at.eval_data_path.empty());
  EXPECT_EQ(at.train_steps, 2);  // epochs of one step, which nobody has counted yet
  EXPECT_EQ(options("g.yaml", "load_in_4bit: true\nmodel_config: m\ndata_path: d\n",
                    {"--load_in_4bit", "false"})
                .model_config,
            "m");
}

// Hugging Face's scripts and LLaMA-Factory take the file's name alone.
TEST_F(ConfigFile, MayBeTheFirstWord) {
  const std::string path = write("f.yml", "model_config: m\ndata_path: d\nmax_steps: 5\n");
  EXPECT_EQ(parse_command(Words{path, "--seed", "4"}).options.train_steps, 5);
}

TEST_F(ConfigFile, AllKeysThatCannotBeHonouredAreNamedAtOnce) {
  EXPECT_EQ(
      refused("f.yml",
              "max_steps: 3\nload_in_4bit: true\nlearning_rat: 1\nmomentum: 0.9\n"
              "datasets:\n  - path: d.jsonl\n    fraction: 0.5\n"),
      "4 keys of f.yml, a file of Hugging Face's Trainer, cannot be honoured; correct them, "
      "or give other values on the command line\n"
      "  f.yml:2: load_in_4bit: true cannot be honoured, only false can: quantized weights "
      "are not here; adapters train beside whole ones\n"
      "  f.yml:3: unknown key learning_rat; did you mean --learning_rate?\n"
      "  f.yml:4: momentum is a key of the DeepSpeed JSON (optimizer.params.momentum); set it "
      "in --deepspeed_config FILE\n"
      "  f.yml:7: datasets[].fraction: 0.5 cannot be honoured, only 1 can: --data_path SHARE "
      "FILE SHARE FILE is a mixture");
}

TEST_F(ConfigFile, AValueOfAnotherKindIsNamedWithItsLine) {
  EXPECT_EQ(refused("f.yml", "seed: 4\nplan: perhaps\n"),
            "f.yml:2: --plan must be true or false; correct it (perhaps)");
}

TEST_F(ConfigFile, OtherFilesAreRefused) {
  EXPECT_TRUE(holds(refused("f.toml", "a = 1"), "ends with .yaml, .yml or .json"));
  EXPECT_TRUE(holds(refused("f.yml", "- a\n"), "names of flags with their values are required"));
  EXPECT_TRUE(holds(refused("f.yml", "config: g.yml\n"), "a file of flags names no other one"));
  EXPECT_TRUE(holds(refusal({"--config", "/nowhere/f.yml"}), "--config must be a readable file"));
  EXPECT_TRUE(holds(refusal({"--deepspeed_config", "x.yml"}),
                    "a YAML file of flags is named by --config (x.yml)"));
}

const std::string kAxolotl = R"(base_model: NousResearch/Llama-3.2-1B
datasets:
  - path: teknium/GPT4-LLM-Cleaned
    type: alpaca
val_set_size: 0.1
adapter: lora
lora_model_dir:
sequence_len: 2048
sample_packing: true
lora_r: 16
lora_alpha: 32
lora_dropout: 0.05
lora_target_linear: true
gradient_accumulation_steps: 2
micro_batch_size: 3
max_steps: 10
optimizer: adamw_8bit
learning_rate: 0.0002
bf16: auto
tf32: false
gradient_checkpointing: true
warmup_ratio: 0.1
evals_per_epoch: 4
special_tokens:
  pad_token: "<|end_of_text|>"
)";

TEST_F(ConfigFile, AFileOfAxolotlIsTranslated) {
  const TrainOptions at = options("a.yml", kAxolotl, {"--model_config", "m"});
  EXPECT_EQ(at.data_path, Words{"teknium/GPT4-LLM-Cleaned"});
  EXPECT_EQ(at.split.evaluation, 0.1);
  EXPECT_EQ(at.lora.r, 16);
  EXPECT_EQ(at.lora.targets, Words{"all-linear"});
  EXPECT_EQ(at.max_seq_len, 2048);
  EXPECT_EQ(at.packing, data::Packing::kBestFit);
  EXPECT_TRUE(at.document_attention);
  EXPECT_EQ(at.batch.micro_batch, 3);
  EXPECT_EQ(at.batch.accumulation, 2);
  EXPECT_EQ(at.element, core::DType::kBF16);
  EXPECT_TRUE(at.recompute);
  EXPECT_EQ(at.scheduler.rule, &optim::kCosine);  // axolotl's own where a file says none
  EXPECT_EQ(at.scheduler.warmup_steps, 1);
  EXPECT_EQ(at.eval_steps, 3);  // a quarter of 10, rounded up
  EXPECT_TRUE(holds(core::join(at.notes, "\n"), "optimizer: adamw_8bit: AdamW is here"));
  EXPECT_TRUE(holds(core::join(at.notes, "\n") + "\n",
                    "(docs/migration.md says why): datasets[].type, special_tokens.pad_token\n"));
}

TEST_F(ConfigFile, WithoutAnAdapterAxolotlTrainsAllWeights) {
  std::string whole = kAxolotl;
  whole.replace(whole.find("adapter: lora"), 13, "adapter:");
  EXPECT_EQ(options("a.yml", whole, {"--model_config", "m"}).lora.r, 0);
  whole.replace(whole.find("sample_packing: true"), 20, "");
  EXPECT_EQ(options("a.yml", whole, {"--model_config", "m"}).packing, data::Packing::kOneDocument);
}

const std::string kFactory = R"(model_name_or_path: Qwen/Qwen3-4B
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 4
lora_target: all
dataset: talks
dataset_dir: DIR
template: qwen3
per_device_train_batch_size: 1
learning_rate: 1.0e-4
num_train_epochs: 3.0
bf16: true
plot_loss: true
)";

TEST_F(ConfigFile, AFileOfLlamaFactoryIsTranslated) {
  write("data/dataset_info.json", R"({"talks": {"file_name": "talks.json", "formatting": "sharegpt",
    "columns": {"messages": "conversations"}}, "rows": {"file_name": "rows.json"}})");
  std::string text = kFactory;
  text.replace(text.find("DIR"), 3, (folder_ / "data").string());
  const TrainOptions at = options("l.yaml", text, {"--model_config", "m"});
  EXPECT_EQ(at.data_path, Words{(folder_ / "data/talks.json").string()});
  EXPECT_EQ(at.lora.r, 4);
  EXPECT_EQ(at.lora.alpha, 8);  // twice the rank
  EXPECT_EQ(at.max_seq_len, 2048);
  EXPECT_EQ(at.packing, data::Packing::kOneDocument);
  EXPECT_TRUE(holds(core::join(at.notes, "\n"), "template: qwen3: the chat template of the model"));
  text.replace(text.find("talks"), 5, "rows, hub");
  const std::string said = refused("l.yaml", text, {"--model_config", "m"});
  EXPECT_TRUE(holds(said, "l.yaml:7: dataset rows: LLaMA-Factory makes conversations"));
  EXPECT_TRUE(holds(said, "has no such entry"));
  EXPECT_EQ(options("l.yaml", text, {"--model_config", "m", "--data_path", "d"}).data_path,
            Words{"d"});
}

// What follows from a key follows from the flag that wins over it.
TEST_F(ConfigFile, TheCommandLineDecidesWhatFollows) {
  const std::string epochs = R"(base_model: m
datasets: [{path: d.jsonl}]
sequence_len: 128
micro_batch_size: 1
learning_rate: 1e-4
num_epochs: 1
saves_per_epoch: 1
evals_per_epoch: 4
)";
  const auto at = [&](const Words& more) {
    Words words = {"--config", write("a.yml", epochs), "--model_config", "m"};
    words.insert(words.end(), more.begin(), more.end());
    return parse_command(words, 100).options;
  };
  const Words evaluates = {"--validation_split", "0.1"};
  EXPECT_EQ(at(evaluates).save_steps, 0);
  EXPECT_EQ(at(evaluates).eval_steps, 25);
  const TrainOptions three = at({"--validation_split", "0.1", "--num_train_epochs", "3"});
  EXPECT_EQ(three.train_steps, 300);
  EXPECT_EQ(three.save_steps, 100);
  EXPECT_EQ(three.eval_steps, 25);
  std::string text = kFactory;
  text.replace(text.find("dataset: talks"), std::string("dataset: talks\ndataset_dir: DIR").size(),
               "");
  const TrainOptions wide =
      options("l.yaml", text, {"--model_config", "m", "--data_path", "d", "--lora_r", "64"});
  EXPECT_EQ(wide.lora.alpha, 128);
  EXPECT_EQ(
      options("l.yaml", text + "max_samples: 50\n", {"--model_config", "m", "--data_path", "d"})
          .split.most_training,
      50);
}

// The keys of a file that are refused, in order.
Words refused_keys(const std::string& said) {
  Words keys;
  for (const std::string& line : core::split(said, '\n')) {
    const std::size_t start = line.find(".json:");
    if (start == std::string::npos || line.find("cannot be honoured;") != line.npos) continue;
    const std::size_t key = line.find(": ", start) + 2;
    keys.push_back(line.substr(key, line.find(": ", key) - key));
  }
  return keys;
}

// Published files of fine-tuning, as JSON: {"source", "keys"}, and what of each cannot be honoured
// beside a model and data of one's own. Without that all would run.
TEST_F(ConfigFile, PublishedFilesAreAnsweredKeyByKey) {
  int files = 0;
  for (const char* list : {"axolotl_files.jsonl", "llama_factory_files.jsonl", "trl_files.jsonl"}) {
    std::ifstream file(std::string(FM_FOREIGN) + "/" + list);
    for (std::string line; std::getline(file, line); ++files) {
      const nlohmann::ordered_json row = nlohmann::ordered_json::parse(line);
      std::ofstream(folder_ / "f.json") << row.at("keys").dump();
      const Words words = {"--config",           (folder_ / "f.json").string(),
                           "--model_config",     "m",
                           "--data_path",        "d.jsonl",
                           "--deepspeed_config", "{}"};
      const std::string said = refusal_of([&] { parse_command(words); });
      EXPECT_EQ(said.find("unknown key"), said.npos) << said;
      const Words expected = row.value("refused", Words{});
      EXPECT_EQ(refused_keys(said), expected) << row.at("source") << "\n" << said;
      EXPECT_EQ(said == "accepted", expected.empty()) << row.at("source") << "\n" << said;
    }
  }
  EXPECT_GE(files, 24);
}

// Published command lines of run_clm.py and TRL, each a list of words.
TEST(PublishedCommands, AreAnsweredFlagByFlag) {
  std::ifstream file(std::string(FM_FOREIGN) + "/commands.jsonl");
  int commands = 0;
  for (std::string line; std::getline(file, line); ++commands) {
    const nlohmann::json row = nlohmann::json::parse(line);
    Words words = row.at("words").get<Words>();
    words.insert(words.end(), {"--data_path", "d.jsonl"});
    const bool has_model = holds(line, "--model_name_or_path") || holds(line, "--config_name");
    if (!has_model) words.insert(words.end(), {kModel});
    std::string said = refusal_of([&] { parse_command(words); });
    if (said.starts_with("a model is required")) said = "accepted";
    for (const std::string& flag : row.value("refused", Words{})) EXPECT_TRUE(holds(said, flag));
    EXPECT_EQ(said.find("unknown flag"), said.npos) << said;
    EXPECT_EQ(said == "accepted", !row.contains("refused")) << row.at("source") << "\n" << said;
  }
  EXPECT_GE(commands, 20);
}

}  // namespace
}  // namespace fm::cli
