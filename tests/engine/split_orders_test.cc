// Random orders of the two halves of backward: whatever order a schedule chooses, the step has the
// bits of the plain one, and takes exactly the buffers that the plan counted.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "comm/meet/world.h"
#include "engine/state/persistence.h"
#include "engine/step/tensors.h"
#include "pipeline/passes.h"
#include "small_run.h"
#include "zero/insert_zero.h"

namespace fm::engine {
namespace {

using pipeline::Instruction;
using pipeline::Op;
using pipeline::Placement;
using pipeline::Program;

constexpr int kSteps = 2;

struct Shape {
  int blocks = 1;
  int micros = 1;
  bool tied = false;
  bool recompute = false;
  int zero_stage = 0;
};

TrainOptions options_of(const Shape& shape) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_split", shape.tied);
  options.model_config = core::concat(testing::TempDir(), "/fm_split/", shape.blocks, shape.tied);
  std::ofstream(options.model_config) << core::concat(
      R"({"model_type": "llama", "hidden_size": 24, "num_attention_heads": 3,
                         "num_key_value_heads": 1, "intermediate_size": 40, "vocab_size": 777,
                         "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
                         "num_hidden_layers": )",
      shape.blocks, R"(, "tie_word_embeddings": )", shape.tied ? "true" : "false", "}");
  options.max_seq_len = 5;
  options.batch = {{}, 1, shape.micros};
  options.sum_order = core::SumOrder::kCanonical;
  options.recompute = shape.recompute;
  options.zero_stage = shape.zero_stage;
  options.prefetch_elements = 0;
  return options;
}

// One rank's instructions, each behind those that it needs, else in any order.
class RandomOrder {
 public:
  RandomOrder(const Shape& shape, std::mt19937& random) : shape_(shape), random_(random) {}

  Program draw() {
    for (int micro = 0; micro < shape_.micros; ++micro) add_micro(micro);
    Program out;
    while (!waiting_.empty()) {
      std::vector<std::size_t> ready;
      for (std::size_t at = 0; at < waiting_.size(); ++at) {
        if (is_ready(waiting_[at])) ready.push_back(at);
      }
      const std::size_t chosen = ready[random_() % ready.size()];
      out.push_back(waiting_[chosen]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    out.push_back({Op::kReport, -1, -1});
    return out;
  }

 private:
  int head() const { return shape_.blocks + 1; }

  void add_micro(int micro) {
    waiting_.push_back({Op::kLoad, micro, -1});
    waiting_.push_back({Op::kLoss, micro, -1});
    for (int unit = 0; unit < head(); ++unit) {
      for (const Op op : {Op::kForward, Op::kBackwardInput, Op::kBackwardWeight}) {
        waiting_.push_back({op, micro, unit});
      }
    }
  }

  bool waits(const Instruction& wanted) const {
    return std::ranges::find(waiting_, wanted) != waiting_.end();
  }

  // Gradients of a unit are added in the order of micro-batches.
  bool is_ready(const Instruction& at) const {
    const int k = at.micro;
    const int u = at.unit;
    if (at.op == Op::kForward) {
      return !waits(u == 0 ? Instruction{Op::kLoad, k, -1} : Instruction{Op::kForward, k, u - 1});
    }
    if (at.op == Op::kLoss) {
      return !waits({Op::kForward, k, head() - 1}) && !waits({Op::kLoss, k - 1, -1});
    }
    if (at.op == Op::kBackwardInput) {
      return !waits(u + 1 == head() ? Instruction{Op::kLoss, k, -1}
                                    : Instruction{Op::kBackwardInput, k, u + 1});
    }
    if (at.op == Op::kBackwardWeight) {
      return !waits({Op::kBackwardInput, k, u}) && !waits({Op::kBackwardWeight, k - 1, u});
    }
    return at.op == Op::kLoad;
  }

  Shape shape_;
  std::mt19937& random_;
  Program waiting_;
};

// `plan` with another order of its only pipe rank.
void replace_order(RunPlan& plan, const Program& order) {
  Program program = order;
  if (plan.rules.recompute) program = insert_recompute(program, plan.units());
  program = zero::insert_zero(program, plan.rules.plan, plan.units(), 0);
  const auto refusal = pipeline::validate({program}, plan.rules);
  ASSERT_FALSE(refusal) << pipeline::describe(*refusal, {program}) << "\n" << print(program);
  plan.train[0] = program;
}

void expect_all_lent(const RankState& state) {
  EXPECT_EQ(state.hidden.unused(), 0);
  EXPECT_EQ(state.kept.unused(), 0);
  EXPECT_EQ(state.parked.unused(), 0);
  EXPECT_EQ(state.gather_slots.unused(), 0);
}

// Two data ranks. An empty order is the schedule's own.
RunTrace run_order(const TrainOptions& options, const Program& order) {
  RunTrace trace;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    core::Ledger ledger;
    const model::OpenedModel opened = open_run_model(options);
    RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
    if (!order.empty()) replace_order(plan, order);
    RankState state(options, plan, opened.model, world, ledger);
    fill_state(options, opened, state);
    SmallSteps steps(options, opened.model, state);
    for (int step = 1; step <= kSteps; ++step) {
      const StepResult result = steps.run(step);
      if (world.rank() != 0) continue;
      trace.losses.push_back(result.loss);
      trace.norms.push_back(result.grad_norm);
    }
    steps.settle();
    if (world.rank() != 0) return;
    expect_all_lent(state);
    for (const core::TensorSlice& slice : param_slices(state, Part::kOwned)) {
      const core::FetchedRow row(slice, 0, core::FetchedRow::Use::kRead);
      trace.weights[slice.name].assign(row.floats().begin(), row.floats().end());
    }
  });
  return trace;
}

class SplitOrders : public testing::TestWithParam<int> {};  // ZeRO stage
INSTANTIATE_TEST_SUITE_P(Zero, SplitOrders, testing::Range(0, 4));

// 4 stages x 2 x 2 x 2 x 7 = 224 programs.
TEST_P(SplitOrders, HaveTheBitsOfThePlainOrderAndTakeWhatTheAccountSays) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  for (const int blocks : {1, 2}) {
    for (const bool tied : {false, true}) {
      for (const bool recompute : {false, true}) {
        for (int round = 0; round < 7; ++round) {
          const Shape shape{blocks, 1 + static_cast<int>(random() % 4), tied, recompute,
                            GetParam()};
          const TrainOptions options = options_of(shape);
          const Program order = RandomOrder(shape, random).draw();
          const RunTrace plain = run_order(options, {});
          ASSERT_EQ(plain.losses.size(), static_cast<std::size_t>(kSteps));
          EXPECT_EQ(first_difference(plain, run_order(options, order)), "") << print(order);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fm::engine
