// Rows whose tokens lie on several ranks give what one rank gives with the whole rows: losses,
// gradients, checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "document_rows.h"
#include "engine/plan/sequence_layout.h"
#include "small_run.h"
#include "tests/model/family_jsons.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

using Method = SequenceMethod;

struct Layout {
  int ranks = 1;
  Method method = Method::kAuto;
  int zero_stage = 0;
  int pipe = 1;
  int data = 1;
  bool recompute = false;
  bool shared_memory = true;
};

std::ostream& operator<<(std::ostream& out, const Layout& at) {
  return out << "sequence " << at.ranks << " method " << static_cast<int>(at.method) << " ZeRO "
             << at.zero_stage << " pipe " << at.pipe << " data " << at.data;
}

TrainOptions laid_out(TrainOptions options, const Layout& at) {
  options.sequence_parallel_size = at.ranks;
  options.sequence_method = at.method;
  options.zero_stage = at.zero_stage;
  options.pipe_parallel_size = at.pipe;
  options.recompute = at.recompute;
  options.shared_memory = at.shared_memory;
  return options;
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts = {
      {2, Method::kUlysses},
      {2, Method::kRing},
      {4, Method::kUsp},
      {4, Method::kRing, 1, 1, 1, true},
      {4, Method::kUlysses, 2},  // 6 heads, 2 of keys and values
      {2, Method::kUlysses, 3},
      {2, Method::kUlysses, 1, 2},
      {2, Method::kRing, 3, 2},
      {2, Method::kRing, 2, 1, 2},
      {2, Method::kUlysses, 3, 1, 2, true},
      {2, Method::kUlysses, 3, 2, 1, true, false},
      {2, Method::kRing, 3, 2, 1, false, false},
  };
  return kLayouts;
}

TEST(SequenceParallel, LossesOfTenStepsAreThoseOfOneRank) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_sequence", true);
  options.optimizer.lr = 1e-3;
  const RunTrace alone = run_small(options, 1, 10);
  for (const Layout& at : layouts()) {
    SCOPED_TRACE(testing::Message() << at);
    const RunTrace shared = run_small(laid_out(options, at), at.data, 10);
    for (std::size_t step = 0; step < 10; ++step) {
      EXPECT_NEAR(shared.losses.at(step), alone.losses[step], 1e-5) << step;
      EXPECT_NEAR(shared.norms.at(step), alone.norms[step], 1e-4 * alone.norms[step]) << step;
    }
  }
}

TEST(SequenceParallel, CanonicalOrderKeepsItsPromiseAmongEqualSequenceRanks) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_sequence", true);
  options.sum_order = core::SumOrder::kCanonical;
  for (const Method method : {Method::kUlysses, Method::kRing}) {
    const RunTrace first = run_small(laid_out(options, {2, method}), 1, 3);
    for (const Layout& at : {Layout{2, method, 3, 1, 2}, Layout{2, method, 1, 2, 1, true},
                             Layout{2, method, 2, 2, 2}}) {
      SCOPED_TRACE(testing::Message() << at);
      EXPECT_EQ(first_difference(first, run_small(laid_out(options, at), at.data, 3)), "");
    }
  }
}

// Documents of row p begin at 0, 3 + p % 5 and 11. Of its labels those before 16 - 5 (p % 4) count,
// so that of two ranks one may have none.
class UnequalRows : public DocumentRows {
 public:
  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    DocumentRows::read(position, tokens_T, labels_T);
    std::fill(labels_T.begin() + (16 - 5 * (position % 4)), labels_T.end(), data::kIgnored);
  }
};

// SGD with a rate of 1: weights after one step are weights before it less the gradient.
TrainOptions gradient_options(const std::string& folder) {
  TrainOptions options = small_options(testing::TempDir() + folder, false);
  options.optimizer = {.rule = &optim::kSgd, .lr = 1.0};
  options.gradient_clipping = 0.0;
  options.document_attention = true;
  return options;
}

// Weights are below 1 (norms) and below 0.2, so that rounding them hides less than 1e-7.
double largest_difference(const RunTrace& a, const RunTrace& b) {
  double largest = 0.0;
  for (const auto& [name, values] : a.weights) {
    const std::vector<float>& other = b.weights.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(double{values[i]} - other.at(i)));
    }
  }
  return largest;
}

TEST(SequenceParallel, UnequalCountsOfLabelsGiveTheLossAndGradientOfOneRank) {
  const UnequalRows rows;
  for (const LossReduction reduction : {LossReduction::kToken, LossReduction::kMeanOfMeans}) {
    TrainOptions options = gradient_options("/fm_sequence_labels");
    options.loss_reduction = reduction;
    options.batch = {4, 2, {}};
    const RunTrace alone = run_small(options, 1, 1, &rows);
    for (Layout at : layouts()) {
      SCOPED_TRACE(testing::Message() << at);
      // A mean of means is one of the slots that data ranks have.
      const RunTrace one = at.data == 1 ? alone : run_small(options, at.data, 1, &rows);
      const RunTrace shared = run_small(laid_out(options, at), at.data, 1, &rows);
      EXPECT_NEAR(shared.losses[0], one.losses[0], 1e-6);
      EXPECT_NEAR(shared.norms[0], one.norms[0], 4e-6 * one.norms[0]);
      EXPECT_LT(largest_difference(one, shared), 1e-6);
    }
  }
}

class SequenceFamilies : public testing::TestWithParam<model::FamilyJson> {};

TEST_P(SequenceFamilies, GradientsAreThoseOfOneRank) {
  const UnequalRows rows;
  TrainOptions options = gradient_options("/fm_sequence_families");
  options.model_config = testing::TempDir() + "/fm_sequence_families/" + GetParam().name + ".json";
  // These two refuse dropout of what attention and MLP add.
  const std::string& name = GetParam().name;
  const bool drops = !name.starts_with("Falcon") && !name.starts_with("Stablelm");
  std::ofstream(options.model_config)
      << GetParam().text.substr(0, GetParam().text.rfind('}'))
      << (drops ? R"(, "attn_pdrop": 0.1, "resid_pdrop": 0.2, "embd_pdrop": 0.3,
              "attention_dropout": 0.1, "hidden_dropout": 0.2})"
                : "}");
  for (const bool apart : {false, true}) {
    options.document_attention = apart;
    const RunTrace alone = run_small(options, 1, 1, &rows);
    for (const Layout& at :
         {Layout{2, Method::kUlysses}, Layout{2, Method::kRing}, Layout{4, Method::kUsp, 3}}) {
      SCOPED_TRACE(testing::Message() << at << " apart " << apart);
      const RunTrace shared = run_small(laid_out(options, at), 1, 1, &rows);
      EXPECT_NEAR(shared.losses[0], alone.losses[0], 1e-6);
      EXPECT_NEAR(shared.norms[0], alone.norms[0], 4e-6 * alone.norms[0]);
      EXPECT_LT(largest_difference(alone, shared), 4e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SequenceFamilies, testing::ValuesIn(model::family_jsons()),
                         [](const auto& family) { return family.param.name; });

TEST(SequenceParallel, AdaptersWithDropoutLearnWhatTheyLearnOnOneRank) {
  const UnequalRows rows;
  TrainOptions options = gradient_options("/fm_sequence_adapters");
  options.lora.r = 3;
  options.lora.dropout = 0.3;
  const RunTrace alone = run_small(options, 1, 3, &rows);
  for (const Layout& at : {Layout{2, Method::kUlysses}, Layout{4, Method::kUsp, 3}}) {
    SCOPED_TRACE(testing::Message() << at);
    const RunTrace shared = run_small(laid_out(options, at), 1, 3, &rows);
    EXPECT_NEAR(shared.losses[2], alone.losses[2], 1e-6);
    EXPECT_LT(largest_difference(alone, shared), 1e-6);
  }
}

// Hidden states of bf16 have 8 bits.
TEST(SequenceParallel, NarrowTypesAgreeToTheirPrecision) {
  for (const core::DType element : {core::DType::kBF16, core::DType::kF16}) {
    TrainOptions options = small_options(testing::TempDir() + "/fm_sequence", false);
    options.element = element;
    options.optimizer.lr = 1e-3;
    if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
    const RunTrace alone = run_small(options, 1, 3);
    for (const Layout& at : {Layout{2, Method::kUlysses, 2}, Layout{4, Method::kUsp, 3}}) {
      SCOPED_TRACE(testing::Message() << at);
      const RunTrace shared = run_small(laid_out(options, at), 1, 3);
      EXPECT_NEAR(shared.losses[0], alone.losses[0], 1e-3);
      EXPECT_NEAR(shared.losses[2], alone.losses[2], 5e-3);
      EXPECT_NEAR(shared.norms[0], alone.norms[0], 0.02 * alone.norms[0]);
    }
  }
}

class SequenceRuns : public TrainerCase {};

// Two steps in each of four layouts, with evaluations.
TEST_F(SequenceRuns, CheckpointsResumeInEveryLayout) {
  TrainOptions whole = options("whole", 8);
  whole.optimizer.lr = 1e-3;
  whole.eval_data_path = whole.data_path;
  whole.eval_steps = 2;
  ASSERT_EQ(run(whole), 0);
  std::vector<Layout> order = {{2, Method::kRing, 3},
                               {1, Method::kAuto, 1, 2, 2},
                               {4, Method::kUsp, 2},
                               {2, Method::kUlysses, 1, 2}};
  TrainOptions parts = whole;
  parts.output_dir = (folder() / "parts").string();
  parts.train_steps = 0;
  for (const Layout& at : order) {
    parts.train_steps += 2;
    ASSERT_EQ(run(laid_out(parts, at), at.ranks * at.pipe * at.data), 0);
    parts.resume = checkpoint::Resume::kMust;
  }
  for (int step = 1; step <= 8; ++step) {
    EXPECT_NEAR(metrics(parts).at(step).loss, metrics(whole).at(step).loss, 1e-5) << step;
    if (step % 2 != 0) continue;
    EXPECT_NEAR(metrics(parts).at(step).eval_loss, metrics(whole).at(step).eval_loss, 1e-5);
  }
}

model::Model with_heads(std::int64_t heads, std::int64_t kv_heads, int tensor_ranks = 1) {
  model::Model model;
  model.share.count = tensor_ranks;
  model.heads = heads;
  model.kv_heads = kv_heads;
  return model;
}

TEST(SequenceLayout, FollowsFromHeadsWhereNoMethodIsNamed) {
  TrainOptions options;
  options.max_seq_len = 240;
  const auto words = [&](int ranks) {
    options.sequence_parallel_size = ranks;
    return sequence_words(sequence_split_of(options, with_heads(6, 2)));
  };
  EXPECT_EQ(words(1), "");
  EXPECT_EQ(words(4), "Ulysses 4");
  EXPECT_EQ(words(8), "ring 8");
  options.sequence_method = Method::kUsp;
  EXPECT_EQ(words(6), "Ulysses 2 x ring 3");
  options.ulysses_degree = 3;
  EXPECT_EQ(words(6), "Ulysses 3 x ring 2");
}

// Each of 2 tensor-parallel ranks has 3 of 6 heads to deal out.
TEST(SequenceLayout, UlyssesRanksShareTheHeadsOfATensorParallelRank) {
  TrainOptions options;
  options.max_seq_len = 240;
  const auto words = [&](int ranks, Method method) {
    options.sequence_parallel_size = ranks;
    options.sequence_method = method;
    return sequence_words(sequence_split_of(options, with_heads(6, 2, 2)));
  };
  EXPECT_EQ(words(3, Method::kAuto), "Ulysses 3");
  EXPECT_EQ(words(4, Method::kAuto), "ring 4");
  EXPECT_EQ(words(4, Method::kUsp), "Ulysses 2 x ring 2");
  expect_error(core::ExitCode::kConfigError, "(ulysses ranks=4, heads=6, model_parallel_size=2)",
               [&] { words(4, Method::kUlysses); });
}

TEST(SequenceLayout, RefusesWhatCannotBeCut) {
  const auto refused = [](int ranks, Method method, std::int64_t row, int degree,
                          const std::string& part) {
    TrainOptions options;
    options.max_seq_len = row;
    options.sequence_parallel_size = ranks;
    options.sequence_method = method;
    options.ulysses_degree = degree;
    expect_error(core::ExitCode::kConfigError, part,
                 [&] { sequence_split_of(options, with_heads(6, 2)); });
  };
  refused(8, Method::kUlysses, 240, 0, "(ulysses ranks=8, heads=6)");
  refused(4, Method::kUlysses, 242, 0, "must be a multiple of 4 so that 4 sequence ranks");
  refused(4, Method::kRing, 244, 0, "must be a multiple of 8 so that 4 sequence ranks (ring 4)");
  refused(6, Method::kUsp, 246, 3, "must be a multiple of 12");
  refused(4, Method::kUsp, 240, 3, "(ulysses_degree=3, sequence_parallel_size=4)");
  refused(4, Method::kRing, 240, 2, "belongs to --sequence_parallel usp");
}

RunPlan plan_of(int ranks, Method method, std::int64_t row) {
  static const TrainOptions kSmall = small_options(testing::TempDir() + "/fm_sequence", false);
  TrainOptions options = laid_out(kSmall, {ranks, method});
  options.max_seq_len = row;
  static const model::OpenedModel kOpened = open_run_model(kSmall);
  return make_run_plan(options, kOpened.model, {.ranks = ranks});
}

// 5 layers, 4 micro-batches of a row; 6 heads and 2 of keys and values, of 16 elements.
TEST(SequencePlan, CountsWhatAttentionSends) {
  const std::int64_t calls = 5 * 4;
  const std::int64_t head = 8 * 16 * 4;  // bytes of a rank's tokens
  auto wire = plan_of(2, Method::kUlysses, 16).wire_bytes(0);
  EXPECT_EQ(wire.at("F").count(), calls * head * (3 + 3 + 1 + 1));      // half of q, out, k, v
  EXPECT_EQ(wire.at("B").count(), calls * head * (3 + 3 + 3 + 1 + 1));  // out, dout, dq, dk, dv
  wire = plan_of(2, Method::kRing, 16).wire_bytes(0);
  EXPECT_EQ(wire.at("F").count(), calls * head * (2 + 2));            // k, v
  EXPECT_EQ(wire.at("B").count(), calls * head * (2 + 2) * (1 + 2));  // dk and dv go all round
  EXPECT_FALSE(plan_of(1, Method::kAuto, 16).wire_bytes(0).contains("F"));
}

TEST(SequencePlan, ActivationsFallWithTheTokensOfARank) {
  const auto activations = [](int ranks, Method method) {
    return static_cast<double>(plan_of(ranks, method, 64).memory(0).activations.count());
  };
  const double alone = activations(1, Method::kAuto);
  EXPECT_NEAR(activations(4, Method::kRing) / alone, 0.25, 0.01);
  EXPECT_NEAR(activations(2, Method::kUlysses) / alone, 0.5, 0.01);
  EXPECT_EQ(plan_of(4, Method::kUsp, 64).tokens_per_step(), 4 * 64);
}

}  // namespace
}  // namespace fm::engine
