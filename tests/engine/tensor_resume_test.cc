// What lies on disk does not depend on the number of tensor-parallel ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/units/lora.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class TensorResumeTest : public TrainerCase {
 protected:
  static void expect_near(const std::map<int, MetricsLine>& a, const std::map<int, MetricsLine>& b,
                          int steps) {
    for (int step = 1; step <= steps; ++step) {
      EXPECT_NEAR(a.at(step).loss, b.at(step).loss, 1e-5) << "step " << step;
    }
  }
};

TEST_F(TensorResumeTest, RunsGoOnWithOtherNumbersOfTensorRanks) {
  TrainOptions whole = options("whole", 12);
  whole.optimizer.lr = 1e-3;
  ASSERT_EQ(run(whole), 0);
  TrainOptions part = whole;
  part.output_dir = (folder() / "part").string();
  part.train_steps = 2;
  part.model_parallel_size = 2;
  part.zero_stage = 3;
  ASSERT_EQ(run(part, 4), 0);
  part.resume = checkpoint::Resume::kMust;
  part.train_steps = 7;
  part.model_parallel_size = 1;
  part.pipe_parallel_size = 2;
  ASSERT_EQ(run(part, 2), 0);
  part.train_steps = 12;
  part.model_parallel_size = 6;
  part.pipe_parallel_size = 1;
  part.zero_stage = 1;
  ASSERT_EQ(run(part, 6), 0);
  expect_near(metrics(whole), metrics(part), 12);
}

// A checkpoint is resumed and exported without a step: nothing was computed in between.
TEST_F(TensorResumeTest, ExportsAreTheSameBytes) {
  for (const bool adapted : {false, true}) {
    TrainOptions alone = options(adapted ? "adapted" : "plain", 3);
    if (adapted) {
      alone.lora.r = 3;
      alone.lora.targets = {model::kAllLinear};
      alone.optimizer.lr = 1e-2;
    }
    ASSERT_EQ(run(alone), 0);
    const fs::path file = fs::path(alone.output_dir) / "hf" / "model.safetensors";
    const fs::path adapter = fs::path(alone.output_dir) / "adapter" / "adapter_model.safetensors";
    const std::string first = content(file);
    const std::string first_adapter = content(adapter);
    ASSERT_FALSE(first.empty());
    for (const int ranks : {2, 6}) {
      TrainOptions again = alone;
      again.resume = checkpoint::Resume::kMust;
      again.model_parallel_size = ranks;
      fs::remove_all(fs::path(alone.output_dir) / "hf");
      fs::remove_all(fs::path(alone.output_dir) / "adapter");
      ASSERT_EQ(run(again, ranks == 2 ? 4 : 6), 0);
      EXPECT_TRUE(content(file) == first) << ranks << " ranks, adapted " << adapted;
      EXPECT_TRUE(content(adapter) == first_adapter) << ranks << " ranks";
    }
  }
}

TEST_F(TensorResumeTest, GradientFilesHoldEveryTensorOnce) {
  TrainOptions alone = options("run", 1);
  alone.dump_gradients = (folder() / "alone.safetensors").string();
  ASSERT_EQ(run(alone), 0);
  TrainOptions together = alone;
  together.dump_gradients = (folder() / "together.safetensors").string();
  together.model_parallel_size = 6;
  together.zero_stage = 2;
  ASSERT_EQ(run(together, 6), 0);
  EXPECT_EQ(fs::file_size(alone.dump_gradients), fs::file_size(together.dump_gradients));
  const std::string a = content(alone.dump_gradients);
  const std::string b = content(together.dump_gradients);
  std::uint64_t header = 0;
  std::memcpy(&header, a.data(), sizeof(header));
  double largest = 0.0;
  double apart = 0.0;
  for (std::size_t at = 8 + header; at + 4 <= a.size(); at += 4) {
    float x = 0.0F;
    float y = 0.0F;
    std::memcpy(&x, a.data() + at, 4);
    std::memcpy(&y, b.data() + at, 4);
    largest = std::max(largest, std::abs(double{x}));
    apart = std::max(apart, std::abs(double{x} - double{y}));
  }
  EXPECT_GT(largest, 0.0);
  EXPECT_LT(apart, 1e-5 * largest);
}

TEST_F(TensorResumeTest, WhatMovesWholeMatricesIsRefusedByName) {
  TrainOptions options = this->options("run", 1);
  options.model_parallel_size = 2;
  options.optimizer.rule = &optim::kMuon;
  expect_error(core::ExitCode::kConfigError, "optimizer=", [&] { run(options, 2); });
}

}  // namespace
}  // namespace fm::engine
