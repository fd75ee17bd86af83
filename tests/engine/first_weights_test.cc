// What a run begins with where no weights are given.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

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

  // The embedding after a step that changes nothing.
  std::vector<float> embedding(const std::string& key, int zero_stage, int ranks) const {
    TrainOptions options = small_options(folder_.string(), true);
    std::ifstream file(options.model_config);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    text.insert(1, key);
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

}  // namespace
}  // namespace fm::engine
