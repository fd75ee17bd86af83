// Rows of runs whose command does not say them.
#include "engine/plan/choose_rows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/check.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using data::Packing;

class ChooseRows : public testing::Test {
 protected:
  ChooseRows() : folder_(fs::path(testing::TempDir()) / ("rows_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    chats_ = write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})");
    text_ = write("text.jsonl", R"({"text": "a"})");
  }
  ~ChooseRows() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  // A folder of a model of that length.
  std::string model(std::int64_t length) const {
    const std::string config = core::concat(R"({"model_type": "llama", "hidden_size": 32,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
      "vocab_size": 500, "max_position_embeddings": )",
                                            length, "}");
    const std::string name = "model" + std::to_string(length);
    write(name + "/tokenizer.json", "{}");
    return fs::path(write(name + "/config.json", config)).parent_path();
  }
  // As a command that says nothing of rows.
  TrainOptions options(const std::string& data, std::int64_t length) const {
    TrainOptions options;
    options.init_ckpt = model(length);
    options.data_path = {data};
    options.left_open = {.packing = true, .document_attention = true, .max_seq_len = true};
    return options;
  }
  static std::string chosen(TrainOptions options) {
    choose_rows(options);
    const char* const packing = options.packing == Packing::kBestFit ? "best_fit" : "concat";
    const std::string attention = options.document_attention ? ", documents apart" : "";
    return core::concat(options.max_seq_len, " ", packing, attention, " | ",
                        options.left_open.chosen);
  }

  fs::path folder_;
  std::string chats_, text_;
};

constexpr const char* kAnswers =
    "; --packing best_fit --document_attention: answers follow their questions";

TEST_F(ChooseRows, ChatsArePackedWholeInLongRows) {
  EXPECT_EQ(chosen(options(chats_, 4096)),
            std::string("1024 best_fit, documents apart | rows of 1,024 tokens: --max_seq_len not "
                        "given") +
                kAnswers);
  EXPECT_EQ(chosen(options(chats_, 512)),
            std::string("512 best_fit, documents apart | rows of 512 tokens, the model's length: "
                        "--max_seq_len not given") +
                kAnswers);
}

TEST_F(ChooseRows, TextIsJoinedAndCut) {
  EXPECT_EQ(chosen(options(text_, 4096)),
            "1024 concat | rows of 1,024 tokens: --max_seq_len not given");
  TrainOptions random = options(text_, 4096);
  random.model_config = random.init_ckpt + "/config.json";
  random.init_ckpt.clear();
  EXPECT_EQ(chosen(random), "128 concat | rows of 128 tokens: --max_seq_len not given");
  random.data_path = {chats_};
  EXPECT_TRUE(chosen(random).starts_with("1024 best_fit")) << chosen(random);
}

TEST_F(ChooseRows, ATokenizerMayHaveALengthOfItsOwn) {
  const TrainOptions given = options(text_, 4096);
  write("model4096/tokenizer_config.json", R"({"model_max_length": 768})");
  EXPECT_EQ(chosen(given),
            "768 concat | rows of 768 tokens, the tokenizer's length: --max_seq_len not given");
  write("model4096/tokenizer_config.json",
        R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(chosen(given), "1024 concat | rows of 1,024 tokens: --max_seq_len not given");
}

TEST_F(ChooseRows, WhatIsSaidWins) {
  TrainOptions said = options(chats_, 4096);
  said.packing = Packing::kConcat;
  said.max_seq_len = 128;
  said.left_open = {.document_attention = true};
  EXPECT_EQ(chosen(said), "128 concat | ");
  said.left_open = {};
  EXPECT_EQ(chosen(said), "128 concat | ");
  said.packing = Packing::kBestFit;
  EXPECT_EQ(chosen(said), "128 best_fit | ");
  said.left_open = {.document_attention = true};
  EXPECT_EQ(chosen(said),
            "128 best_fit, documents apart | --document_attention: answers follow their questions");
}

// The rows of an evaluation are made the same way, and flat files have no documents.
TEST_F(ChooseRows, FlatFilesOfAnEvaluationAreNoDocuments) {
  TrainOptions given = options(chats_, 4096);
  given.eval_data_path = {write("e.bin", "0123")};
  EXPECT_EQ(chosen(given), "1024 concat | rows of 1,024 tokens: --max_seq_len not given");
}

TEST_F(ChooseRows, ASecondChoiceChangesNothing) {
  TrainOptions given = options(chats_, 4096);
  choose_rows(given);
  const std::string words = given.left_open.chosen;
  choose_rows(given);
  EXPECT_EQ(given.left_open.chosen, words);
  EXPECT_EQ(given.max_seq_len, 1024);
}

}  // namespace
}  // namespace fm::engine
