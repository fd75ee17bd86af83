// An optimizer needs no change of the product: a row and a function, handed in from here.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "trainer_case.h"

namespace fm::engine {
namespace {

using optim::OptimizerOptions;
using optim::OptimizerRow;
using optim::UpdateScalars;
using optim::UpdateSlice;

// Sign-SGD (arXiv 1802.04434) with 0, 1 or 2 moments: of the gradient, of an average of it, of the
// difference between a fast and a slow average.
template <int kMoments>
void update_sign(const core::Work&, const OptimizerOptions& at, const UpdateScalars& scalars,
                 const UpdateSlice& s) {
  const auto lr = static_cast<float>(scalars.lr);
  const auto decay = static_cast<float>(s.decay ? at.weight_decay : 0.0);
  for (std::int64_t i = 0; i < s.count.count(); ++i) {
    float direction = s.grad[i] * scalars.grad_scale;
    for (int m = 0; m < kMoments; ++m) {
      const auto beta = static_cast<float>(at.betas[static_cast<std::size_t>(m)]);
      s.moment[m][i] = beta * s.moment[m][i] + (1.0F - beta) * s.grad[i] * scalars.grad_scale;
      direction = m == 0 ? s.moment[0][i] : direction - 0.5F * s.moment[m][i];
    }
    const auto sign = static_cast<float>((direction > 0.0F) - (direction < 0.0F));
    s.param[i] -= lr * (sign + decay * s.param[i]);
  }
}

constexpr optim::OptimizerParam kBetas[] = {{"betas", &OptimizerOptions::betas}};

using Names = std::vector<std::string>;
constexpr OptimizerRow kSign = {.name = "sign-SGD", .update = update_sign<0>};
constexpr OptimizerRow kAverage = {
    .name = "sign-SGD with momentum",
    .moments = [](const OptimizerOptions&) -> Names { return {"fast"}; },
    .params = kBetas,
    .update = update_sign<1>};
constexpr OptimizerRow kDifference = {.name = "sign-SGD of a difference",
                                      .moments = [](const OptimizerOptions&) -> Names {
                                        return {"fast", "slow"};
                                      },
                                      .params = kBetas,
                                      .update = update_sign<2>};

class ToyOptimizer : public TrainerCase, public testing::WithParamInterface<const OptimizerRow*> {
 protected:
  // Rows that count upwards: what follows a token can be learnt.
  TrainOptions toy_options(const std::string& output, int zero_stage, int pipe) const {
    TrainOptions out = options(output, 6);
    std::vector<std::int32_t> ids(17 * 40);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 16);
    std::ofstream(out.data_path[0], std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()),
               static_cast<std::streamsize>(ids.size() * sizeof(ids[0])));
    out.optimizer.rule = GetParam();
    out.optimizer.lr = 1e-3;
    out.optimizer.betas = {0.5, 0.75};
    out.zero_stage = zero_stage;
    out.pipe_parallel_size = pipe;
    out.save_steps = 4;
    return out;
  }

  static std::string bytes_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    EXPECT_TRUE(in.is_open()) << file;
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // Of the first block.
  static std::filesystem::path checkpoint_of(const TrainOptions& options,
                                             const std::string& moment) {
    return std::filesystem::path(options.output_dir) / "global_step6" /
           (moment + "-0001.safetensors");
  }
};

TEST_P(ToyOptimizer, TrainsSavesResumesAndExportsInEveryZeroStage) {
  const TrainOptions whole = toy_options("whole", 0, 1);
  ASSERT_EQ(run(whole), 0);
  const auto expected = metrics(whole);
  EXPECT_LT(expected.at(6).loss, 0.9 * expected.at(1).loss);
  const Names moments = optim::moments_of(whole.optimizer);
  const model::OpenedModel opened = open_run_model(whole);
  const RunPlan plan = make_run_plan(whole, opened.model, {1});
  EXPECT_EQ(plan.memory(0).optimizer.count(),
            plan.memory(0).params.count() * static_cast<std::int64_t>(moments.size()));
  std::set<std::string> ends = {std::string(64, '\0')};  // no moment is zero, or another's
  for (const std::string& moment : moments) {
    const std::string file = bytes_of(checkpoint_of(whole, moment));
    EXPECT_TRUE(ends.insert(file.substr(file.size() - 64)).second) << moment;
  }
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(core::concat("ZeRO ", zero_stage));
    TrainOptions parts = toy_options(core::concat("zero", zero_stage), zero_stage, 1);
    parts.train_steps = 4;
    ASSERT_EQ(run(parts, 2), 0);
    parts = toy_options(core::concat("zero", zero_stage), zero_stage, 2);
    parts.resume = checkpoint::Resume::kMust;
    ASSERT_EQ(run(parts, 4), 0);
    const auto found = metrics(parts);
    for (int step = 1; step <= 6; ++step) {
      EXPECT_EQ(found.at(step).loss, expected.at(step).loss) << step;
      EXPECT_EQ(found.at(step).grad_norm, expected.at(step).grad_norm) << step;
    }
    for (const char* file : {"hf/model.safetensors", "hf/config.json"}) {
      EXPECT_EQ(bytes_of(std::filesystem::path(parts.output_dir) / file),
                bytes_of(std::filesystem::path(whole.output_dir) / file));
    }
    for (const std::string& moment : moments) {
      EXPECT_EQ(bytes_of(checkpoint_of(parts, moment)), bytes_of(checkpoint_of(whole, moment)));
    }
  }
}

// The first step moves every weight by the learning rate, or not at all where no gradient is.
TEST_P(ToyOptimizer, IsTheRuleThatUpdates) {
  TrainOptions options = toy_options("once", 2, 1);
  options.optimizer.weight_decay = 0.0;
  const RunTrace after = run_small(options, 2, 1);
  options.optimizer.lr = 0.0;
  const RunTrace before = run_small(options, 2, 1);
  int moved = 0;
  for (const auto& [name, values] : before.weights) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float by = std::abs(after.weights.at(name)[i] - values[i]);
      moved += by > 0.0F ? 1 : 0;
      ASSERT_TRUE(by == 0.0F || std::abs(by - 1e-3F) < 2e-7F) << name << " " << i << ": " << by;
    }
  }
  EXPECT_GT(moved, 400'000);
}

TEST_P(ToyOptimizer, ItsNameIsWhatCheckpointAndBannerSay) {
  TrainOptions named = toy_options("named", 0, 1);
  named.train_steps = 1;
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(named), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  const std::string name(named.optimizer.rule->name);
  const std::string betas = named.optimizer.rule->params.empty() ? "" : ", betas 0.5 0.75";
  EXPECT_EQ(occurrences(said, "  optimizer  " + name + ", lr 0.001" + betas + ", weight decay 0.1"),
            1)
      << said;
  OptimizerRow renamed = *named.optimizer.rule;
  renamed.name = "another";
  TrainOptions other = named;
  other.optimizer.rule = &renamed;
  expect_error(core::ExitCode::kConfigError, "(checkpoint: " + name + ", now: another)",
               [&] { run(other); });
  if (named.optimizer.rule->params.empty()) return;
  named.train_steps = 2;
  named.optimizer.betas = {0.5, 0.875};
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(named), 0);
  const std::string warned = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(warned, "betas: [0.5,0.75] in the checkpoint, [0.5,0.875] now"), 1)
      << warned;
}

INSTANTIATE_TEST_SUITE_P(Moments, ToyOptimizer, testing::Values(&kSign, &kAverage, &kDifference),
                         [](const auto& at) { return std::to_string(at.index); });

}  // namespace
}  // namespace fm::engine
