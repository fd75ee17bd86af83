// What a run begins with where no weights are given.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/units/initial_values.h"
#include "small_run.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHidden = 96;
constexpr std::int64_t kPad = 100;

class FirstWeights : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // The embedding after a step that changes nothing; `key` is put before those of config.json.
  std::vector<float> embedding(const std::string& key, int zero_stage, int ranks) const {
    TrainOptions options = small_options(folder_.string(), true);
    std::ifstream file(options.model_config);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    text.insert(1, key);
    if (key.find("vocab_size") != key.npos) {
      text.replace(text.rfind("\"vocab_size\""), 12, "\"was\"");
    }
    std::ofstream(options.model_config) << text;
    options.optimizer.lr = 0.0;
    options.zero_stage = zero_stage;
    return run_small(options, ranks, 1).weights.at("model.embed_tokens.weight");
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "fm_first_weights";
};

// transformers 5.23: LlamaForCausalLM(LlamaConfig(pad_token_id=100)) zeroes this row only.
TEST_F(FirstWeights, OfTheIdThatPadsAreZeros) {
  std::vector<float> expected = embedding("", 0, 1);
  const auto row = expected.begin() + kPad * kHidden;
  EXPECT_EQ(std::count(expected.begin(), expected.end(), 0.0F), 0);
  std::fill(row, row + kHidden, 0.0F);
  for (const int zero_stage : {0, 1, 3}) {
    for (const int ranks : {1, 2}) {
      EXPECT_EQ(embedding(R"("pad_token_id": 100, )", zero_stage, ranks), expected)
          << zero_stage << " " << ranks;
    }
  }
}

// Threads fill 262,144 elements at a time, of a matrix that has three such parts.
TEST_F(FirstWeights, OfALongMatrixAreThoseOfItsName) {
  constexpr std::int64_t kVocab = 6007;
  const std::vector<float> got = embedding(R"("vocab_size": 6007, )", 0, 1);
  ASSERT_EQ(std::ssize(got), kVocab * kHidden);
  const core::ParamEntry entry{.name = "model.embed_tokens.weight",
                               .shape = {kVocab, kHidden},
                               .kind = core::ParamKind::kEmbedding};
  std::vector<float> expected(got.size());
  model::init_parameter(entry, TrainOptions().seed, 0.02, core::Elements(0), expected);
  EXPECT_EQ(got, expected);
}

}  // namespace
}  // namespace fm::engine
