// Tokens that a run adds: the rows that they get are the mean of the others, in every layout, and
// the canonical order keeps its promise with a vocabulary that no number of ranks divides; also
// where these rows alone are trained beside adapters.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/hf_folder.h"
#include "comm/meet/world.h"
#include "engine/plan/run_tokens.h"
#include "engine/run/trainer.h"
#include "small_run.h"
#include "two_rank_layouts.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kOld = 777;
constexpr std::int64_t kNew = 779;
constexpr std::int64_t kHidden = 96;
constexpr int kSteps = 3;
constexpr const char* kEmbedding = "model.embed_tokens.weight";

// 777 tokens.
void write_tokenizer(const fs::path& folder) {
  std::ofstream file(folder / "tokenizer.json");
  file << R"({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "merges": [],
              "vocab": {"t0": 0)";
  for (std::int64_t id = 1; id < kOld; ++id) file << ", \"t" << id << "\": " << id;
  file << "}}}\n";
}

// Every fourth id is a new one.
void write_ids(const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  for (std::int32_t i = 0; i < 4000; ++i) {
    const std::int32_t id = i % 4 == 0 ? 777 + i / 4 % 2 : i * 37 % 777;
    file.write(reinterpret_cast<const char*>(&id), sizeof id);
  }
}

class AddedTokens : public testing::TestWithParam<bool> {
 protected:
  static bool tied() { return GetParam(); }
  static fs::path folder() {
    return fs::path(testing::TempDir()) / (tied() ? "fm_added_tied" : "fm_added_untied");
  }
  // The weights of a folder with 777 rows.
  static TrainOptions added_options() {
    TrainOptions options = small_options(folder().string(), tied());
    const fs::path base = folder() / "base" / "hf";
    if (!fs::exists(base / "tokenizer.json")) {
      TrainOptions first = options;
      first.output_dir = (folder() / "base").string();
      first.train_steps = 1;
      first.resume = checkpoint::Resume::kNever;
      comm::run_ranks(1, [&](comm::Communicator& alone) {
        EXPECT_EQ(train(first, open_run_model(first), alone, {}), 0);
      });
      write_tokenizer(base);
    }
    options.model_config = "";
    options.init_ckpt = base.string();
    options.data_path = {(folder() / "new_ids.bin").string()};
    write_ids(options.data_path[0]);
    options.add_tokens = {"<|im_start|>", "t5", "<|im_end|>"};
    options.sum_order = core::SumOrder::kCanonical;
    return options;
  }
  void TearDown() override { fs::remove_all(folder()); }
};

std::vector<float> row_of(const std::vector<float>& matrix, std::int64_t row) {
  return {matrix.begin() + row * kHidden, matrix.begin() + (row + 1) * kHidden};
}

TEST_P(AddedTokens, BeginAsTheMeanOfAllOtherRows) {
  TrainOptions options = added_options();
  const RunTrace alone = run_small(options, 1, 0);
  const checkpoint::HfFolder base(options.init_ckpt);
  for (const std::string name : {kEmbedding, tied() ? kEmbedding : "lm_head.weight"}) {
    std::vector<float> old(kOld * kHidden);
    base.read(core::slice_in_memory(name, {kOld, kHidden}, core::Elements(0), old.data(),
                                    core::Elements(kOld * kHidden)));
    const std::vector<float>& now = alone.weights.at(name);
    ASSERT_EQ(std::ssize(now), kNew * kHidden);
    EXPECT_EQ(std::vector<float>(now.begin(), now.begin() + kOld * kHidden), old);
    std::vector<float> mean(kHidden);
    for (std::size_t column = 0; column < mean.size(); ++column) {
      double sum = 0.0;
      for (std::int64_t row = 0; row < kOld; ++row) {
        sum += static_cast<double>(old[static_cast<std::size_t>(row * kHidden) + column]);
      }
      mean[column] = static_cast<float>(sum / static_cast<double>(kOld));
    }
    EXPECT_EQ(row_of(now, kOld), mean) << name;
    EXPECT_EQ(row_of(now, kOld + 1), mean) << name;
  }
  for (const int zero_stage : {0, 1, 3}) {
    options.zero_stage = zero_stage;
    options.model_parallel_size = 2;
    EXPECT_EQ(first_difference(alone, run_small(options, 2, 0)), "") << zero_stage;
  }
}

TEST_P(AddedTokens, TrainBitForBitInEveryLayout) {
  TrainOptions options = added_options();
  expect_same_bits_of_two(options, run_small(options, 1, kSteps), kSteps);
  options.model_parallel_size = 2;
  const RunTrace two = run_small(options, 1, kSteps);
  for (const int zero_stage : {1, 3}) {
    options.zero_stage = zero_stage;
    options.pipe_parallel_size = zero_stage == 1 ? 2 : 1;
    EXPECT_EQ(first_difference(two, run_small(options, 2, kSteps)), "") << zero_stage;
  }
}

// The embedding and the head are frozen but for the rows of what was added.
TEST_P(AddedTokens, AloneAreTrainedBesideAdapters) {
  TrainOptions options = added_options();
  options.lora.r = 3;
  choose_token_rows(options);
  EXPECT_EQ(options.lora.token_rows, (std::vector<std::int64_t>{777, 778}));
  const RunTrace before = run_small(options, 1, 0);
  const RunTrace after = run_small(options, 1, kSteps);
  for (const std::string name : {kEmbedding, tied() ? kEmbedding : "lm_head.weight"}) {
    const std::vector<float>& was = before.weights.at(name);
    const std::vector<float>& is = after.weights.at(name);
    for (std::int64_t row = 0; row < kNew; ++row) {
      EXPECT_EQ(row_of(was, row) == row_of(is, row), row < kOld) << name << " row " << row;
    }
  }
  expect_same_bits_of_two(options, after, kSteps);
  options.model_parallel_size = 2;
  const RunTrace two = run_small(options, 1, kSteps);
  options.zero_stage = 3;
  EXPECT_EQ(first_difference(two, run_small(options, 2, kSteps)), "");
}

// Rows that nobody would train.
TEST_P(AddedTokens, WithoutTrainedRowsBesideAdaptersAreRefused) {
  TrainOptions fresh = added_options();
  fresh.lora.r = 3;
  const auto refused = [](TrainOptions options) {
    EXPECT_THROW(choose_token_rows(options), core::UserError);
  };
  TrainOptions continued = fresh;
  continued.lora.start = "adapter";
  refused(continued);
  continued.lora.token_rows = {777};
  refused(continued);
  if (tied()) return;
  fresh.lora.modules_to_save = {"lm_head"};
  refused(fresh);
  fresh.lora.modules_to_save = {"lm_head", "embed_tokens"};
  choose_token_rows(fresh);
  EXPECT_TRUE(fresh.lora.token_rows.empty());
}

INSTANTIATE_TEST_SUITE_P(All, AddedTokens, testing::Bool(),
                         [](const auto& at) { return at.param ? "Tied" : "Untied"; });

}  // namespace
}  // namespace fm::engine
