// Compute in bf16 and fp16 keeps the promises of fp32: layouts that agree bit for bit, weights by
// name in fp32, and nearly the same losses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/shown/plan.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

class NarrowTypes : public TrainerCase, public testing::WithParamInterface<core::DType> {
 protected:
  TrainOptions small(bool tied, int zero_stage = 0) const {
    TrainOptions options = small_options(folder().string(), tied);
    choose(GetParam(), options);
    options.zero_stage = zero_stage;
    return options;
  }
  static void choose(core::DType element, TrainOptions& options) {
    options.element = element;
    options.loss_scale.reset();
    if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  }
};

TEST_P(NarrowTypes, AllStagesAgreeAtOneMicroBatchPerStep) {
  for (const bool tied : {false, true}) {
    const RunTrace zero0 = run_small(small(tied), 4, kSteps);
    for (const int zero_stage : {1, 2, 3}) {
      for (const bool shared_memory : {true, false}) {
        TrainOptions options = small(tied, zero_stage);
        options.shared_memory = shared_memory;
        EXPECT_EQ(first_difference(zero0, run_small(options, 4, kSteps)), "")
            << "tied " << tied << " ZeRO " << zero_stage << " shared memory " << shared_memory;
      }
    }
  }
}

TEST_P(NarrowTypes, StagesThatReduceAlikeAgree) {
  for (const int zero_stage : {0, 2}) {
    EXPECT_EQ(first_difference(run_small(small(true, zero_stage), 2, kSteps),
                               run_small(small(true, zero_stage + 1), 2, kSteps)),
              "");
  }
}

TEST_P(NarrowTypes, PipelinesThatReduceOnceEqualNoPipeline) {
  const RunTrace plain = run_small(small(false), 2, kSteps);
  for (const int zero_stage : {0, 1}) {
    for (const pipeline::ScheduleRow& schedule : pipeline::all_schedules()) {
      TrainOptions options = small(false, zero_stage);
      options.pipe_parallel_size = 2;
      if (schedule.constraint.holds != nullptr) continue;  // more micro-batches than 2
      options.schedule = &schedule;
      EXPECT_EQ(first_difference(plain, run_small(options, 2, kSteps)), "") << zero_stage;
    }
  }
}

TEST_P(NarrowTypes, RecomputationAndRepetitionMoveNoBit) {
  const RunTrace once = run_small(small(true, 2), 2, kSteps);
  TrainOptions options = small(true, 2);
  options.recompute = true;
  EXPECT_EQ(first_difference(once, run_small(options, 2, kSteps)), "");
}

// Where nothing is learned, weights by name are the initial fp32 values, not what units read.
TEST_P(NarrowTypes, WeightsByNameAreTheMaster) {
  TrainOptions options = small(true);
  options.optimizer.lr = 0.0;
  TrainOptions wide = options;
  choose(core::DType::kF32, wide);
  const RunTrace expected = run_small(wide, 1, 1);
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const bool shared_memory : {true, false}) {
      options.zero_stage = zero_stage;
      options.shared_memory = shared_memory;
      EXPECT_EQ(run_small(options, 2, 1).weights, expected.weights) << zero_stage;
    }
  }
}

// Updates of 2^-12 of a weight would be lost in bf16.
TEST_P(NarrowTypes, SmallUpdatesAddUpInTheMaster) {
  TrainOptions options = small(false);
  options.optimizer = {.rule = &optim::kSgd, .lr = 0x1p-10, .weight_decay = 0.25};
  options.gradient_clipping = 1e-9;  // the gradient is clipped to nothing: pure decay
  const RunTrace after = run_small(options, 1, 8);
  const double left = std::pow(1.0 - 0x1p-12, 8);
  for (const float value : after.weights.at("model.norm.weight")) EXPECT_NEAR(value, left, 1e-6);
}

TEST_P(NarrowTypes, LossesAreNearThoseOfFp32) {
  TrainOptions options = small(true, 1);
  options.optimizer.lr = 1e-3;
  const RunTrace narrow = run_small(options, 2, 20);
  choose(core::DType::kF32, options);
  const RunTrace wide = run_small(options, 2, 20);
  EXPECT_NE(narrow.losses, wide.losses);
  for (std::size_t step = 0; step < wide.losses.size(); ++step) {
    EXPECT_NEAR(narrow.losses[step], wide.losses[step], 2e-3 * wide.losses[step]) << step;
  }
  EXPECT_NEAR(narrow.norms[0], wide.norms[0], 5e-3 * wide.norms[0]);  // of the same weights
}

// Files hold fp32: runs of both types go on from each other's checkpoints.
TEST_P(NarrowTypes, CheckpointsServeBothTypes) {
  TrainOptions whole = options("whole", 6);
  choose(GetParam(), whole);
  ASSERT_EQ(run(whole), 0);
  TrainOptions part = run_in_parts(whole, comm::Between::kMessages);
  const auto expected = metrics(whole);
  for (const auto& [step, line] : metrics(part)) {
    EXPECT_EQ(line.loss, expected.at(step).loss) << step;
    EXPECT_EQ(line.grad_norm, expected.at(step).grad_norm) << step;
  }

  choose(core::DType::kF32, part);
  part.train_steps = 8;
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(part, 2), 0);
  const std::string_view name = core::name_of(GetParam());
  EXPECT_EQ(occurrences(testing::internal::GetCapturedStderr(),
                        core::concat("the checkpoint was computed with ", name, " compute, ")),
            1);
  choose(GetParam(), part);
  part.train_steps = 10;
  ASSERT_EQ(run(part, 2), 0);
  EXPECT_EQ(metrics(part).size(), 10U);
  whole.train_steps = 10;
  ASSERT_EQ(run(whole), 0);
  for (const int step : {8, 10}) {
    EXPECT_NEAR(metrics(part).at(step).loss, metrics(whole).at(step).loss, 0.05);
  }
}

TEST_P(NarrowTypes, PlanAndJsonSayThePrecision) {
  const TrainOptions narrow = small(false);
  TrainOptions wide = narrow;
  choose(core::DType::kF32, wide);
  const std::string name(core::name_of(GetParam()));
  EXPECT_NE(plan_text(narrow, open_run_model(narrow), {})
                .find(", " + name + " compute (fp32 master weights and gradients)\n"),
            std::string::npos);
  EXPECT_NE(plan_text(wide, open_run_model(wide), {}).find(", fp32\n"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(plan_json(narrow, open_run_model(narrow), {}))["precision"],
            name);
  EXPECT_EQ(nlohmann::json::parse(plan_json(wide, open_run_model(wide), {}))["precision"], "fp32");
}

INSTANTIATE_TEST_SUITE_P(Both, NarrowTypes, testing::Values(core::DType::kBF16, core::DType::kF16),
                         [](const auto& each) { return std::string(core::name_of(each.param)); });

}  // namespace
}  // namespace fm::engine
