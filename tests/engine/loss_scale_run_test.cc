// Runs in fp16: the loss scale searches its place, survives a resume, and changes no number.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "core/fault.h"
#include "engine/state/progress_state.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

class LossScaleRun : public TrainerCase {
 protected:
  TrainOptions fp16(const std::string& output, std::int64_t steps, double first) const {
    TrainOptions out = options(output, steps);
    out.element = core::DType::kF16;
    out.loss_scale = {.first = first, .window = 3, .hysteresis = 1};
    return out;
  }
};

std::vector<double> scales(const std::map<int, MetricsLine>& lines) {
  std::vector<double> out;
  for (const auto& [step, line] : lines) out.push_back(line.loss_scale);
  return out;
}

// More overflows than a run may skip steps for another reason, and each is explained.
TEST_F(LossScaleRun, FindsAScaleThatFits) {
  const TrainOptions large = fp16("large", 30, 0x1p40);
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(large, 2), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  const auto lines = metrics(large);
  int skipped = 0;
  double scale = 0x1p40;
  for (const auto& [step, line] : lines) {
    if (!line.skipped) break;
    EXPECT_EQ(line.loss_scale, scale);
    EXPECT_FALSE(line.grad_norm && *line.grad_norm == 0.0);
    scale /= 2;
    ++skipped;
  }
  EXPECT_GT(skipped, large.max_consecutive_skips);
  EXPECT_LT(skipped, 30);
  EXPECT_FALSE(lines.at(30).skipped);
  EXPECT_NE(said.find("skipped, weights unchanged: loss "), std::string::npos) << said;
  EXPECT_NE(said.find("loss scale 1.09951e+12; first gradient beyond fp16: "), std::string::npos)
      << said;
  EXPECT_NE(said.find("world rank "), std::string::npos) << said;
}

// Gradients are divided by the scale that they were multiplied with, also where it just grew.
TEST_F(LossScaleRun, TheScaleChangesNoNumber) {
  TrainOptions growing = fp16("growing", 8, 1024.0);
  growing.loss_scale->window = 1;
  growing.optimizer = {.rule = &optim::kSgd, .lr = 0.5};  // sees a gradient twice as long
  ASSERT_EQ(run(growing), 0);
  TrainOptions fixed = fp16("fixed", 8, 0.0);
  fixed.optimizer = growing.optimizer;
  fixed.loss_scale->fixed = 4096.0;
  ASSERT_EQ(run(fixed), 0);
  const auto other = metrics(fixed);
  EXPECT_GT(metrics(growing).at(8).loss_scale, 3e4);
  for (const auto& [step, line] : metrics(growing)) {
    EXPECT_NEAR(line.loss, other.at(step).loss, 2e-4 * line.loss) << step;
    ASSERT_TRUE(line.grad_norm && other.at(step).grad_norm) << step;
    EXPECT_NEAR(*line.grad_norm, *other.at(step).grad_norm, 2e-3 * *line.grad_norm) << step;
  }
}

// Without clipping SGD moves by the gradient itself: a scale that is left in it, or divided out
// twice, shows in the second step.
TEST_F(LossScaleRun, TheScaleIsDividedOutOnce) {
  TrainOptions narrow = fp16("narrow", 6, 0.0);
  narrow.loss_scale->fixed = 512.0;
  narrow.gradient_clipping = 0.0;
  narrow.optimizer = {.rule = &optim::kSgd, .lr = 0.2};
  TrainOptions wide = narrow;
  wide.element = core::DType::kF32;
  wide.loss_scale.reset();
  wide.output_dir = (folder() / "wide").string();
  TrainOptions half = wide;
  half.optimizer.lr = 0.1;
  half.output_dir = (folder() / "half").string();
  for (const TrainOptions& options : {narrow, wide, half}) ASSERT_EQ(run(options), 0);
  const double moved = std::abs(metrics(half).at(6).loss - metrics(wide).at(6).loss);
  EXPECT_GT(moved, 1e-3);
  EXPECT_NEAR(metrics(narrow).at(6).loss, metrics(wide).at(6).loss, 0.2 * moved);
}

// The scale of the next step may be another one already.
TEST_F(LossScaleRun, DumpedGradientsAreDividedByTheScaleOfTheirStep) {
  TrainOptions growing = fp16("growing", 2, 1024.0);
  growing.loss_scale->window = 1;
  TrainOptions fixed = fp16("fixed", 2, 0.0);
  fixed.loss_scale->fixed = 1024.0;
  std::vector<std::string> dumped;
  for (TrainOptions* const options : {&growing, &fixed}) {
    options->train_steps = 1;
    ASSERT_EQ(run(*options), 0);
    options->train_steps = 2;  // behind which the scale grows
    options->dump_gradients = options->output_dir + ".safetensors";
    ASSERT_EQ(run(*options), 0);
    std::ifstream file(options->dump_gradients, std::ios::binary);
    dumped.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  EXPECT_FALSE(dumped[0].empty());
  EXPECT_TRUE(dumped[0] == dumped[1]);
}

// What the banner says then.
TEST_F(LossScaleRun, AResumeTakesAFixedScale) {
  TrainOptions run_of = fp16("fixed_later", 2, 1024.0);
  ASSERT_EQ(run(run_of), 0);
  run_of.loss_scale->fixed = 256.0;
  run_of.train_steps = 3;
  ASSERT_EQ(run(run_of), 0);
  EXPECT_EQ(metrics(run_of).at(3).loss_scale, 256.0);
}

TEST_F(LossScaleRun, AResumeGoesOnWithTheScale) {
  const TrainOptions whole = fp16("whole", 24, 0x1p26);
  ASSERT_EQ(run(whole, 2), 0);
  TrainOptions part = whole;
  part.output_dir = (folder() / "part").string();
  for (const std::int64_t steps : {5, 14, 24}) {
    part.train_steps = steps;
    ASSERT_EQ(run(part, 2), 0);
  }
  EXPECT_EQ(scales(metrics(part)), scales(metrics(whole)));
  EXPECT_EQ(metrics(part).at(24).loss, metrics(whole).at(24).loss);
}

TEST_F(LossScaleRun, EndsWhereTheLeastScaleIsTooLarge) {
  TrainOptions large = fp16("large", 30, 0x1p42);
  large.loss_scale->least = 0x1p40;
  expect_error(core::ExitCode::kNumericLimit,
               "gradients must fit into fp16 at the least loss scale; use bf16",
               [&] { run(large, 2); });
}

TEST_F(LossScaleRun, AFixedScaleDoesNotSearch) {
  core::arm_faults("point=bwd.layer,action=nan");
  TrainOptions poisoned = fp16("poisoned", 30, 0x1p10);
  poisoned.loss_scale->fixed = 1024.0;
  expect_error(core::ExitCode::kNumericLimit, "10 steps skipped in a row", [&] { run(poisoned); });
}

// Ten thousand random sequences, each interrupted once: the scaler goes on from what the
// checkpoint's state.json holds.
TEST(LossScaleState, ACheckpointHoldsAllOfIt) {
  std::mt19937 random(3);
  for (int sequence = 0; sequence < 10'000; ++sequence) {
    const optim::LossScaleOptions scaler{.first = 0x1p20,
                                         .window = 1 + sequence % 4,
                                         .hysteresis = 1 + sequence % 3,
                                         .refills_when_clean = sequence % 2 == 0,
                                         .ends_at_least = false};
    optim::LossScaleState unbroken = optim::first_state(scaler);
    optim::LossScaleState resumed = unbroken;
    const auto interrupted = random() % 30;
    for (unsigned step = 0; step < 30; ++step) {
      if (step == interrupted) {
        ProgressState saved;
        saved.run.model = saved.run.optimization = "{}";
        saved.loss_scale = resumed;
        resumed = progress_from_json(to_json(saved)).loss_scale.value();
      }
      const bool overflow = random() % 3 == 0;
      unbroken = optim::next_state(scaler, unbroken, overflow);
      resumed = optim::next_state(scaler, resumed, overflow);
      ASSERT_EQ(resumed.scale, unbroken.scale) << sequence << ", " << step;
    }
  }
}

}  // namespace
}  // namespace fm::engine
