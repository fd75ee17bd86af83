// Which model and which data fit together.
#include "engine/run_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/check.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

// A Hugging Face folder with a tokenizer that is not ours.
std::string foreign_folder() {
  const fs::path folder = fs::path(testing::TempDir()) / "fm_foreign_tokenizer";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "llama", "hidden_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 500, "max_position_embeddings": 64})";
  std::ofstream(folder / "tokenizer.json") << R"({"model": {"type": "BPE"}})";
  return folder.string();
}

std::string outcome(const std::string& data_path, data::Packing packing = data::Packing::kConcat,
                    const std::string& text_field = "text") {
  TrainOptions options;
  options.text_field = text_field;
  options.init_ckpt = foreign_folder();
  options.pretrain = true;
  options.data_path = data_path;
  options.packing = packing;
  try {
    open_run_model(options);
  } catch (const core::UserError& error) {
    return error.what();
  }
  return "opened";
}

TEST(RunModel, TokensThatWereMadeElsewhereGoWithAForeignTokenizer) {
  for (const char* const path : {"t.bin", "T.BIN", "t.i32", "t.I32", ""}) {
    EXPECT_EQ(outcome(path), "opened") << path;
  }
}

TEST(RunModel, TextDoesNotGoWithAForeignTokenizer) {
  for (const char* const path : {"t.jsonl", "T.JSONL", "t.json"}) {
    EXPECT_NE(outcome(path).find("byte tokenizer only"), std::string::npos) << path;
  }
}

TEST(RunModel, ATokenFileHasNoDocumentsToPack) {
  EXPECT_NE(outcome("t.bin", data::Packing::kOneDocument).find("needs JSONL text"),
            std::string::npos);
}

TEST(RunModel, ATokenFileHasNoFields) {
  EXPECT_NE(outcome("t.bin", data::Packing::kConcat, "content").find("--text_field needs JSONL"),
            std::string::npos);
}

TEST(RunModel, ANameThatSaysNothingIsRefusedAsWhereTheDataIsOpened) {
  EXPECT_NE(outcome("t.txt").find("data_path must end with"), std::string::npos);
}

}  // namespace
}  // namespace fm::engine
