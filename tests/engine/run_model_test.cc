// Which model and which data fit together.
#include "engine/plan/run_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "engine/plan/adapter_file.h"
#include "engine/plan/run_tokens.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const char* name) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 500, "max_position_embeddings": 128})";
  return folder.string();
}

// A Hugging Face folder with a tokenizer that is not ours.
std::string foreign_folder() {
  std::string folder = folder_of("fm_foreign_tokenizer");
  std::ofstream(fs::path(folder) / "tokenizer.json") << R"({"model": {"type": "BPE"}})";
  return folder;
}

// One that an export of a model trained on text has left.
std::string byte_folder() {
  std::string folder = folder_of("fm_byte_tokenizer");
  std::ofstream(fs::path(folder) / "tokenizer_config.json")
      << checkpoint::byte_tokenizer_config_json();
  std::ofstream(fs::path(folder) / "tokenizer.json") << checkpoint::byte_tokenizer_json();
  return folder;
}

std::string outcome_of(const TrainOptions& options) {
  try {
    open_run_model(options);
  } catch (const core::UserError& error) {
    return error.what();
  }
  return "opened";
}

std::string outcome(const std::string& data_path, data::Packing packing = data::Packing::kConcat,
                    const std::string& text_field = "text") {
  TrainOptions options;
  options.text_field = text_field;
  options.init_ckpt = foreign_folder();
  options.pretrain = true;
  if (!data_path.empty()) options.data_path = {data_path};
  options.packing = packing;
  return outcome_of(options);
}

TEST(RunModel, TokensThatWereMadeElsewhereGoWithAForeignTokenizer) {
  for (const char* const path : {"t.bin", "T.BIN", "t.i32", "t.I32", ""}) {
    EXPECT_EQ(outcome(path), "opened") << path;
  }
}

TEST(RunModel, TextGoesWithAForeignTokenizer) {
  for (const char* const path : {"t.jsonl", "T.JSONL", "t.json"}) {
    EXPECT_EQ(outcome(path), "opened") << path;
  }
}

// Weights without a word about their tokenizer may be of any vocabulary of that size.
TEST(RunModel, TextNeedsTheTokenizerOfTheWeights) {
  TrainOptions options;
  options.data_path = {"t.jsonl"};
  options.init_ckpt = folder_of("fm_no_tokenizer");
  EXPECT_NE(outcome_of(options).find("text needs the tokenizer that the weights were trained with"),
            std::string::npos)
      << outcome_of(options);
  options.pretrain = true;
  EXPECT_EQ(outcome_of(options), "opened");
  options.pretrain = false;
  options.init_ckpt = byte_folder();
  EXPECT_EQ(outcome_of(options), "opened");
  EXPECT_EQ(tokenizer_folder(options), "");  // the built-in reader of texts
  options.chat_template = "chatml.jinja";
  EXPECT_EQ(tokenizer_folder(options), byte_folder());
  // Adapters bring the tokenizer that they were trained with, as for fmengine-generate.
  options.lora.start = byte_folder();
  options.init_ckpt = "another";
  EXPECT_EQ(tokenizer_folder(options), byte_folder());
  options.lora.start = "nowhere";
  EXPECT_EQ(tokenizer_folder(options), "");
  options.lora.start.clear();
  options.chat_template.clear();
  options.init_ckpt.clear();
  options.model_config = folder_of("fm_no_tokenizer") + "/config.json";
  EXPECT_EQ(outcome_of(options), "opened");
}

// Where the tokenizer's folder has none, and an answer ends otherwise.
TEST(RunModel, TheGenerationConfigOfTheWeightsKeepsWhatItSays) {
  const fs::path weights = folder_of("fm_generation_weights");
  std::ofstream(weights / "generation_config.json") << R"({"temperature": 0.6, "eos_token_id": 1})";
  const fs::path folder = byte_folder();
  fs::remove(folder / "generation_config.json");
  const RunTokens tokens = read_tokens(
      {.folder = folder, .add_tokens = {"<|end|>"}, .eos_token = "<|end|>", .weights = weights});
  const auto json = nlohmann::json::parse(tokens.texts.at("generation_config.json"));
  EXPECT_EQ(json["temperature"], 0.6);
  const auto ends = json["eos_token_id"].get<std::vector<std::int64_t>>();
  EXPECT_EQ(ends.front(), tokens.eos);
  EXPECT_EQ(std::ranges::count(ends, 1), 1);
  EXPECT_EQ(std::ranges::count(ends, -1), 0);
}

// Not those of its tokenizer, which may have tokens without a row.
TEST(RunModel, AdaptersSayHowManyRowsTheyHold) {
  const fs::path folder = folder_of("fm_adapter_rows");
  const auto rows_of = [&](const std::string& name) {
    const std::string header = "{\"" + name + R"(": {"dtype": "F32", "shape": [5, 1],
        "data_offsets": [0, 20]}})";
    const auto size = static_cast<std::uint64_t>(header.size());
    std::ofstream file(folder / "adapter_model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
    file << header << std::string(20, '\0');
    file.close();
    return vocabulary_rows(folder.string());
  };
  EXPECT_EQ(rows_of("base_model.model.model.embed_tokens.weight"), 5);
  EXPECT_EQ(rows_of("base_model.model.lm_head.weight"), 5);
  EXPECT_EQ(rows_of("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"), 0);
}

TEST(RunModel, AFolderThatOnlySaysToBeOfBytesIsRefusedWithItsFile) {
  TrainOptions options;
  options.data_path = {"t.jsonl"};
  options.init_ckpt = byte_folder();
  const fs::path file = fs::path(options.init_ckpt) / "tokenizer.json";
  for (const char* const content : {"{\"model\": {\"type\": \"BPE\"}}", "{", ""}) {
    std::ofstream(file) << content;
    EXPECT_NE(outcome_of(options).find("tokenizer.json: "), std::string::npos) << content;
  }
  fs::remove(file);
  EXPECT_NE(outcome_of(options).find(file.string()), std::string::npos) << outcome_of(options);
}

TEST(RunModel, RowsBeyondTheModelsPositionsAreRefused) {
  TrainOptions options;
  options.model_config = folder_of("fm_no_tokenizer") + "/config.json";
  options.max_seq_len = 129;
  EXPECT_NE(outcome_of(options).find("(max_seq_len=129, max_position_embeddings=128)"),
            std::string::npos)
      << outcome_of(options);
  options.max_seq_len = 128;
  EXPECT_EQ(outcome_of(options), "opened");
}

TEST(RunModel, ATokenFileHasNoDocumentsToPack) {
  EXPECT_NE(outcome("t.bin", data::Packing::kOneDocument).find("--packing needs documents"),
            std::string::npos);
}

TEST(RunModel, ATokenFileHasNoFields) {
  EXPECT_NE(outcome("t.bin", data::Packing::kConcat, "content").find("--text_field needs JSONL"),
            std::string::npos);
}

std::string outcome_of_evaluation(const std::string& folder, const std::string& data_path,
                                  const std::string& text_field = "text") {
  TrainOptions options;
  (folder.ends_with(".json") ? options.model_config : options.init_ckpt) = folder;
  options.pretrain = !folder.ends_with(".json");
  if (!data_path.empty()) options.data_path = {data_path};
  options.eval_data_path = {"e.jsonl"};
  options.text_field = text_field;
  return outcome_of(options);
}

TEST(RunModel, EvaluationTextNeedsTheTokenizerOfTheIds) {
  for (const std::string& folder :
       {folder_of("fm_no_tokenizer"), foreign_folder() + "/config.json"}) {
    EXPECT_NE(outcome_of_evaluation(folder, "t.bin").find("eval_data_path=e.jsonl"),
              std::string::npos)
        << folder;
  }
  EXPECT_EQ(outcome_of_evaluation(foreign_folder(), "t.bin"), "opened");
  EXPECT_EQ(outcome_of_evaluation(byte_folder(), "t.bin"), "opened");
  EXPECT_EQ(outcome_of_evaluation(byte_folder(), "t.bin", "content"), "opened");
  EXPECT_EQ(outcome_of_evaluation(byte_folder(), "t.jsonl"), "opened");
}

TEST(RunModel, ANameThatSaysNothingIsRefusedAsWhereTheDataIsOpened) {
  EXPECT_NE(outcome("t.md").find("data_path must name an existing file"), std::string::npos);
  EXPECT_NE(outcome("/dev").find("/dev: a folder of data must hold files"), std::string::npos);
}

}  // namespace
}  // namespace fm::engine
