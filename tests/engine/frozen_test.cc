// Parameters that --train and --freeze leave alone.
#include <gtest/gtest.h>

#include "engine/plan/trained_names.h"
#include "engine/state/export_checkpoint.h"
#include "engine/state/run_facts.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class Frozen : public TrainerCase {
 protected:
  TrainOptions small(bool tied) const {
    TrainOptions out = small_options(folder().string(), tied);
    out.sum_order = core::SumOrder::kCanonical;
    return out;
  }
  static bool is_trained(const TrainOptions& options, const std::string& name) {
    return trained_names(options)(name);
  }
};

struct Choice {
  const char* train;
  const char* freeze;
  bool tied;
};
// The tied matrix trained and frozen, units without anything trained, parts of units, upper layers.
constexpr Choice kChoices[] = {
    {"", "norm|q_proj|down_proj", true},          {"layers", "", true},
    {"layers\\.[13]\\.mlp", "", false},           {"embed_tokens", "", true},
    {"", "embed_tokens|model\\.norm", false},     {"lm_head", "", false},
    {"", "embed_tokens|layers\\.[0-2]\\.", true}, {"layers\\.[34]\\.self|model\\.norm", "", false},
    {"lm_head|model\\.norm", "", false}};

// Gradients of a first step do not depend on what else is trained.
TEST_F(Frozen, WhatIsTrainedMovesAsIfEverythingWere) {
  for (const Choice& choice : kChoices) {
    TrainOptions options = small(choice.tied);
    options.gradient_clipping = 0.0;
    const RunTrace all = run_small(options, 1, 1);
    options.train = choice.train;
    options.freeze = choice.freeze;
    const RunTrace some = run_small(options, 1, 1);
    const RunTrace begin = run_small(options, 1, 0);
    ASSERT_EQ(some.weights.size(), all.weights.size());
    EXPECT_EQ(some.losses, all.losses);
    EXPECT_LT(some.norms[0], all.norms[0]);
    int trained = 0;
    for (const auto& [name, values] : some.weights) {
      const bool moves = is_trained(options, name);
      trained += moves ? 1 : 0;
      EXPECT_EQ(values, moves ? all.weights.at(name) : begin.weights.at(name)) << name;
      EXPECT_EQ(values != begin.weights.at(name), moves) << name;
    }
    EXPECT_GT(trained, 0);
  }
}

// 2 bytes of each frozen parameter, in slices of whole blocks, and nothing beside them.
TEST_F(Frozen, AFrozenParameterTakesItsElementAlone) {
  TrainOptions options = small(false);
  options.element = core::DType::kBF16;
  options.train = "layers\\.4\\.input_layernorm";
  const model::OpenedModel opened = open_run_model(options);
  const MemoryForecast memory = make_run_plan(options, opened.model, {1}).memory(0);
  constexpr std::int64_t kUnits = 7;
  const std::int64_t all = 633'120;
  EXPECT_EQ(parameters_of(opened), all);
  EXPECT_EQ(trained_of(opened), 96);
  EXPECT_GE(memory.params.count(), 2 * all);
  EXPECT_LE(memory.params.count(), 2 * (all + 2 * kUnits * 1024));
  EXPECT_EQ(memory.grads.count(), 4 * kUnits * 1024);
  EXPECT_EQ(memory.optimizer.count(), 12 * kUnits * 1024);
}

TEST_F(Frozen, WordsThatFindNothingAreRefused) {
  const auto refused = [&](const char* train, const char* freeze, const char* part) {
    TrainOptions options = small(true);
    options.train = train;
    options.freeze = freeze;
    expect_error(core::ExitCode::kConfigError, part, [&] { open_run_model(options); });
  };
  refused("layers\\.7", "", "--train must match the name of a parameter");
  refused("", "lm_head", "--freeze must match the name of a parameter");
  refused("mlp", "layers", "must train something");
  refused("(", "", "--train must be a regular expression");
}

// A checkpoint has nothing of what is frozen; it comes from where the run began.
TEST_F(Frozen, ResumesAtAnotherStageAndSizeBitForBit) {
  TrainOptions first = options("first", 1);
  ASSERT_EQ(run(first), 0);  // its export is the start
  TrainOptions whole = options("whole", 6);
  whole.model_config = "";
  whole.init_ckpt = (folder() / "first" / "hf").string();
  whole.freeze = "mlp|embed";
  ASSERT_EQ(run(whole), 0);
  const TrainOptions part = run_in_parts(whole, comm::Between::kSharedMemory);
  for (int step = 1; step <= 6; ++step) {
    EXPECT_EQ(metrics(whole).at(step).loss, metrics(part).at(step).loss) << "step " << step;
  }
  const auto bytes_of = [&](const char* file) {
    return fs::file_size(fs::path(part.output_dir) / file);
  };
  EXPECT_FALSE(fs::exists(fs::path(part.output_dir) / "global_step6/weights-0000.safetensors"));
  EXPECT_LT(bytes_of("global_step6/weights-0001.safetensors"), 4 * 30'000U);
  EXPECT_GT(bytes_of("hf/model.safetensors"), 4 * 450'000U);

  // An export of a checkpoint fetches the rest from there, too.
  const std::string out = (folder() / "out").string();
  export_checkpoint({.checkpoint = part.output_dir, .out = out});
  EXPECT_EQ(content(fs::path(out) / "model.safetensors"),
            content(fs::path(part.output_dir) / "hf/model.safetensors"));
  fs::copy_file(fs::path(part.output_dir) / "hf/model.safetensors",
                fs::path(whole.init_ckpt) / "model.safetensors",
                fs::copy_options::overwrite_existing);
  export_checkpoint({.checkpoint = part.output_dir, .out = out});  // its frozen part is the same
  TrainOptions other = options("other", 1);
  other.seed = 1;
  ASSERT_EQ(run(other), 0);
  fs::copy_file(fs::path(other.output_dir) / "hf/model.safetensors",
                fs::path(whole.init_ckpt) / "model.safetensors",
                fs::copy_options::overwrite_existing);
  expect_error(core::ExitCode::kConfigError, "must be as they were",
               [&] { export_checkpoint({.checkpoint = part.output_dir, .out = out}); });
}

TEST_F(Frozen, AnotherBaseIsRefused) {
  TrainOptions begun = options("run", 1);
  begun.freeze = "mlp";
  ASSERT_EQ(run(begun), 0);
  TrainOptions other = begun;
  other.train_steps = 2;
  other.freeze = "mlp|norm";
  expect_error(core::ExitCode::kNoCheckpoint, "train the same parameters", [&] { run(other); });
  other.freeze = "mlp";
  TrainOptions exported = options("other", 1);
  ASSERT_EQ(run(exported), 0);
  other.model_config = "";
  other.init_ckpt = (folder() / "other" / "hf").string();
  expect_error(core::ExitCode::kConfigError, "frozen weights", [&] { run(other); });
}

}  // namespace
}  // namespace fm::engine
