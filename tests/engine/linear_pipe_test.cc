// Two pipe ranks with one Linear(1, 1) of weight 1 each, x = 1, y = 0, squared error, SGD of rate
// 0.1, two micro-batches: both weights are 0.8 after a step (tests/unit/pipe of DeepSpeed). A
// division by the micro-batches that is made twice, or not at all, gives 0.9 or 0.6.
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include "comm/meet/world.h"
#include "engine/state/persistence.h"
#include "engine/step/tensors.h"
#include "model/units/linear.h"
#include "small_run.h"

namespace fm::engine {
namespace {

float* f32(void* numbers) { return static_cast<float*>(numbers); }
const float* f32(const void* numbers) { return static_cast<const float*>(numbers); }

constexpr core::Bytes kSome(64);
constexpr model::UnitSizes kSizes{kSome, kSome, kSome, kSome};

template <class Interface>  // Unit or LossUnit
struct Scalar : Interface {
  explicit Scalar(std::vector<core::ParamEntry> entries) : table(std::move(entries), {}) {}
  const core::ParamTable& params() const override { return table; }
  double forward_flops(core::BatchShape /*shape*/) const override { return 2.0; }

  core::ParamTable table;
};

constexpr model::LinearShape kOne{1, 1, 1};

struct ScalarUnit : Scalar<model::Unit> {
  using Scalar::Scalar;
  model::UnitSizes sizes(core::BatchShape /*shape*/, int /*threads*/) const override {
    return kSizes;
  }
};

struct Linear final : ScalarUnit {
  explicit Linear(const std::string& name)
      : ScalarUnit({{name, {1, 1}, core::ParamKind::kMatrix, {}, {}}}) {}
  void forward(const model::UnitCall& call, void* y) const override {
    const float* const x = f32(call.saved.input_BTD);
    if (y != nullptr) model::linear(call.work, kOne, x, f32(call.weights.own), f32(y));
  }
  void backward_input(const model::UnitCall& call, void* dy, void* dx) const override {
    f32(call.saved.parked)[0] = f32(dy)[0];
    if (dx == nullptr) return;
    model::linear_input(call.work, kOne, f32(dy), f32(call.weights.own), f32(dx));
  }
  void backward_weight(const model::UnitCall& call, const model::Gradients& out,
                       model::Write write) const override {
    model::linear_weight(call.work, kOne, f32(call.saved.parked), f32(call.saved.input_BTD),
                         out.own, model::beta_of(write));
  }
};

// x = 1, whatever the token.
struct Input final : ScalarUnit {
  Input() : ScalarUnit({}) {}
  void forward(const model::UnitCall& /*call*/, void* y) const override { f32(y)[0] = 1.0F; }
  void backward_input(const model::UnitCall& /*call*/, void* /*dy*/, void* /*dx*/) const override {}
  void backward_weight(const model::UnitCall& /*call*/, const model::Gradients& /*out*/,
                       model::Write /*write*/) const override {}
};

struct SquaredError final : Scalar<model::LossUnit> {
  SquaredError() : Scalar({}) {}
  model::UnitSizes sizes(core::BatchShape /*shape*/) const override { return kSizes; }
  void loss(const model::UnitCall& /*call*/, void* x, double scale, const model::Gradients& /*out*/,
            model::Write /*write*/, double* sum) const override {
    const double error = f32(x)[0];
    f32(x)[0] = static_cast<float>(2.0 * error * scale);
    *sum += error * error;
  }
  void evaluate(const model::UnitCall& /*call*/, const void* /*x*/,
                double* /*sum*/) const override {}
  void logits(const model::Weights& /*weights*/, std::int64_t /*rows*/, const void* /*x*/,
              float* /*logits*/, core::Work& /*work*/) const override {}
};

model::OpenedModel open_linears() {
  model::OpenedModel opened;
  opened.model.units.push_back(std::make_unique<Input>());
  for (const char* name : {"first", "second"}) {
    opened.model.units.push_back(std::make_unique<Linear>(name));
  }
  opened.model.head = std::make_unique<SquaredError>();
  opened.model.hidden = 1;
  opened.model.vocab = 1;
  opened.init = [](const core::ParamEntry&, std::uint64_t, core::Elements, std::span<float> out) {
    std::ranges::fill(out, 1.0F);
  };
  return opened;
}

TEST(LinearPipe, GradientsAreDividedOnceByTheMicroBatches) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_linear_pipe", false);
  options.data_path = {testing::TempDir() + "/fm_linear_pipe/zeros.bin"};
  std::ofstream(options.data_path[0], std::ios::binary) << std::string(400, '\0');
  options.max_seq_len = 1;
  options.batch = {2, 1, {}};
  options.optimizer = {.rule = &optim::kSgd, .lr = 0.1};
  options.gradient_clipping = 0.0;
  options.pipe_parallel_size = 2;
  const model::OpenedModel opened = open_linears();
  std::mutex mutex;
  std::map<std::string, float> weights;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    core::Ledger ledger;
    const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
    RankState state(options, plan, opened.model, world, ledger);
    fill_state(options, opened, state);
    SmallSteps steps(options, opened.model, state);
    EXPECT_EQ(steps.run(1).loss, 1.0);
    steps.settle();
    const std::scoped_lock lock(mutex);
    for (const core::TensorSlice& slice : param_slices(state, Part::kOwned)) {
      weights[slice.name] = core::FetchedRow(slice, 0, core::FetchedRow::Use::kRead).floats()[0];
    }
  });
  EXPECT_EQ(weights, (std::map<std::string, float>{{"first", 0.8F}, {"second", 0.8F}}));
}

}  // namespace
}  // namespace fm::engine
