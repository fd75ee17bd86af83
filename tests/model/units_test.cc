// Every unit against its autograd twin in fp64, over shapes where nothing is square.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "model/attention/rope_frequencies.h"
#include "model/families/families.h"
#include "model/units/block_params.h"
#include "model/units/head.h"
#include "tests/model/decoder_twin.h"
#include "tests/model/family_jsons.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

// fp32 against fp64, of the largest magnitude; 3.7e-6 was measured.
constexpr double kTolerance = 2e-5;
constexpr core::BatchShape kShape{.batch = 2, .seq_len = 13};
struct Variant {
  std::string name;
  DecoderConfig config;
  core::BatchShape shape = kShape;
  core::NoDecay no_decay = {};
  core::DType element = core::DType::kF32;
  double narrow_tolerance = 0x1p-5;
  bool fuses = false;

  ModelChoices choices() const {
    return {.no_decay = no_decay, .element = element, .fuses_projections = fuses};
  }
  // Largest difference from fp64, of the largest magnitude. bf16 rounds to 2^-9 where it stores,
  // some ten times on the way through two blocks and back.
  double tolerance() const { return element == core::DType::kF32 ? kTolerance : narrow_tolerance; }
  double loss_tolerance() const { return element == core::DType::kF32 ? 1e-6 : 0x1p-9; }
};

DecoderConfig changed(void (*change)(DecoderConfig&)) {
  DecoderConfig config = odd_config();
  change(config);
  return config;
}

Variant in_bf16(const std::string& name, const DecoderConfig& config,
                core::BatchShape shape = kShape) {
  return {name, config, shape, {}, core::DType::kBF16};
}

std::vector<Variant> variants() {
  return {{"Grouped", odd_config()},
          {"HeadDimOfItsOwn", changed([](DecoderConfig& c) { c.head_dim = 24; })},
          {"HeadsWiderThanTheMlp", changed([](DecoderConfig& c) { c.head_dim = 64; })},
          {"NormsBehindTheMatrices", odd_config(), kShape, {.norm = true}},
          {"OneKvHead", changed([](DecoderConfig& c) { c.kv_heads = 1; })},
          {"NoGroups", changed([](DecoderConfig& c) { c.kv_heads = 6; })},
          {"Tied", changed([](DecoderConfig& c) { c.tied = true; })},
          {"Llama3Rope", changed([](DecoderConfig& c) {
             c.rope = {.type = RopeConfig::Type::kLlama3,
                       .theta = 500000.0,
                       .factor = 8.0,
                       .low_freq_factor = 1.0,
                       .high_freq_factor = 4.0,
                       .original_max_position_embeddings = 16};
           })},
          {"OneToken", odd_config(), {.batch = 1, .seq_len = 1}},
          {"BeyondOneAttentionBlock", odd_config(), {.batch = 1, .seq_len = 301}},
          in_bf16("GroupedBf16", odd_config()),
          in_bf16("TiedBf16", changed([](DecoderConfig& c) { c.tied = true; })),
          in_bf16("HeadDimOfItsOwnBf16", changed([](DecoderConfig& c) { c.head_dim = 24; })),
          in_bf16("BeyondOneAttentionBlockBf16", odd_config(), {.batch = 1, .seq_len = 301})};
}

// As their config.json says, in both types.
std::vector<Variant> family_variants() {
  std::vector<Variant> out;
  for (const FamilyJson& family : family_jsons()) {
    const std::string path = testing::TempDir() + "/fm_units_" + family.name + ".json";
    std::ofstream(path) << family.text;
    const DecoderConfig config = read_config(ConfigReader(path));
    out.push_back({family.name, config});
    out.push_back(in_bf16(family.name + "Bf16", config));
    // Gradients of keys' biases and norms nearly cancel; norms on both sides round twice as often.
    out.back().narrow_tolerance = config.block.norm_place == NormPlace::kBoth ? 0x1p-3 : 0x1p-4;
    out.push_back({family.name + "NoDecay", config, {3, 1}, {.norm = true, .bias = true}});
  }
  return out;
}

// Of sizes that leave no gaps between the matrices of a block.
DecoderConfig whole_config(void (*change)(DecoderConfig&) = [](DecoderConfig&) {}) {
  DecoderConfig config = odd_config();
  config.ffn = 240;
  change(config);
  return config;
}

std::vector<Variant> fused_variants() {
  std::vector<Variant> out = {
      {"Fused", whole_config()},
      in_bf16("FusedBf16", whole_config()),
      {"FusedQkNorm", whole_config([](DecoderConfig& c) { c.block.qk_norm = QkNorm::kPerHead; })},
      {"FusedBiases",
       whole_config(
           [](DecoderConfig& c) { c.block.qkv_bias = c.block.mlp_bias = c.block.out_bias = true; }),
       kShape,
       {.norm = true, .bias = true}},
      {"FusedButForGaps", changed([](DecoderConfig& c) { c.hidden = 50; })}};
  for (const Variant& family : family_variants()) {
    if (family.name.ends_with("NoDecay")) continue;
    out.push_back(family);
    out.back().name = "Fused" + family.name;
  }
  for (Variant& each : out) each.fuses = true;
  return out;
}

std::string name_of(const testing::TestParamInfo<Variant>& info) { return info.param.name; }

class Units : public testing::TestWithParam<Variant> {};

DecoderTwin twin_of(const DecoderConfig& config, UnitRun& run) {
  DecoderTwin twin(config, run.input().shape.seq_len);
  for (int unit = 0; unit < run.model().unit_count(); ++unit) {
    const core::ParamTable& table = run.model().table(unit);
    twin.add_leaves(table, run.values(run.weights(unit), table.elements().count()).data());
  }
  return twin;
}

TEST_P(Units, LossAndEveryGradientEqualTheAutogradTwin) {
  const Variant& at = GetParam();
  UnitRun run(at.config, at.shape, at.choices());
  const DecoderTwin twin = twin_of(at.config, run);
  at::Tensor hidden = twin.embed(run.input());
  for (std::int64_t layer = 0; layer < at.config.layers; ++layer)
    hidden = twin.block(layer, hidden);
  const at::Tensor expected = twin.loss_sum(run.input(), hidden);
  const double scale = 1.0 / 19.0;
  (expected * scale).backward();

  const double sum = run.forward_and_backward(scale);
  EXPECT_NEAR(sum, expected.item<double>(), at.loss_tolerance() * expected.item<double>());
  double largest = 0.0;
  if (at.config.tied) {  // the optimizer sees the sum of both ends
    float* table = run.gradients(0);
    const std::int64_t count = run.model().table(0).elements().count();
    for (std::int64_t i = 0; i < count; ++i) table[i] += run.tied_gradients()[i];
  }
  for (int unit = 0; unit < run.model().unit_count(); ++unit) {
    for (const core::ParamEntry& entry : run.model().table(unit).entries()) {
      const double apart = difference(twin.gradient(entry.name), run.gradient(unit, entry));
      EXPECT_LT(apart, at.tolerance()) << entry.name;
      largest = std::max(largest, apart);
    }
  }
  // Numbers were really stored in bf16.
  if (at.element == core::DType::kBF16) {
    EXPECT_GT(largest, 0x1p-10);
  }
}

TEST_P(Units, BlockForwardAndInputGradientEqualTheAutogradTwin) {
  const Variant& at = GetParam();
  UnitRun run(at.config, at.shape, at.choices());
  const DecoderTwin twin = twin_of(at.config, run);
  const std::vector<std::int64_t> shape = {at.shape.batch, at.shape.seq_len, at.config.hidden};
  run.forward(0);
  const auto hidden = [&](const void* from) { return run.values(from, run.hidden_elements()); };
  const at::Tensor x = tensor_of(hidden(run.input_of(1)).data(), shape).set_requires_grad(true);
  const at::Tensor y = twin.block(0, x);
  run.forward(1);
  EXPECT_LT(difference(y, hidden(run.input_of(2)).data()), at.tolerance());

  const core::Buffer dy = run.hidden();
  const core::Buffer dx = run.hidden();
  for (std::int64_t i = 0; i < run.hidden_elements(); ++i) {
    run.set(dy.data(), i, std::sin(static_cast<float>(i)));
  }
  y.backward(tensor_of(hidden(dy.data()).data(), shape));
  run.backward_input(1, dy.data(), dx.data());
  EXPECT_LT(difference(x.grad(), hidden(dx.data()).data()), at.tolerance());
}

TEST_P(Units, WeightHalvesThatWaitWriteTheSameBits) {
  const Variant& at = GetParam();
  UnitRun each(at.config, at.shape, at.choices());
  UnitRun last(at.config, at.shape, at.choices());
  each.forward_and_backward(1.0, UnitRun::WeightHalves::kEach);
  last.forward_and_backward(1.0, UnitRun::WeightHalves::kLast);
  for (int unit = 0; unit < each.model().unit_count(); ++unit) {
    for (const core::ParamEntry& entry : each.model().table(unit).entries()) {
      const auto bytes = static_cast<std::size_t>(entry.numel.count()) * sizeof(float);
      EXPECT_EQ(std::memcmp(each.gradient(unit, entry), last.gradient(unit, entry), bytes), 0)
          << entry.name;
    }
  }
}

TEST_P(Units, RecomputationFillsTheSameBits) {
  UnitRun run(GetParam().config, GetParam().shape, GetParam().choices());
  run.forward(0);
  run.forward(1);
  const std::vector<std::byte> first(run.kept(1).begin(), run.kept(1).end());
  std::ranges::fill(run.kept(1), std::byte{0});
  run.forward(1, nullptr);
  EXPECT_TRUE(std::ranges::equal(first, run.kept(1)));
}

INSTANTIATE_TEST_SUITE_P(Variants, Units, testing::ValuesIn(variants()), name_of);
INSTANTIATE_TEST_SUITE_P(Families, Units, testing::ValuesIn(family_variants()), name_of);
INSTANTIATE_TEST_SUITE_P(Fused, Units, testing::ValuesIn(fused_variants()), name_of);

struct FusedOut {
  std::int64_t qkv, gate_up;
  bool operator==(const FusedOut&) const = default;
};
FusedOut fused_in(const DecoderConfig& config, ModelChoices choices = {}) {
  choices.fuses_projections = true;
  const TensorParts parts = tensor_parts(config, choices.share);
  const BlockPlaces at =
      block_places(rank_config(config, parts), 0, block_tables(config, 0, choices), choices, parts);
  return {at.fused_qkv.out, at.fused_gate_up.out};
}

TEST(FusedProjections, AreNeighboursAndNothingElse) {
  const FusedOut both{96 + 2 * 32, 2 * 240};
  EXPECT_EQ(fused_in(whole_config()), both);
  const DecoderConfig gaps = changed([](DecoderConfig& c) { c.hidden = 50; });
  EXPECT_EQ(fused_in(gaps), (FusedOut{160, 0})) << "250 x 50 elements end in a gap";
  const DecoderConfig biased = whole_config([](DecoderConfig& c) { c.block.qkv_bias = true; });
  EXPECT_EQ(fused_in(biased), (FusedOut{0, 480})) << "biases lie between the matrices";
  EXPECT_EQ(fused_in(biased, {.no_decay = {.bias = true}}), both) << "biases lie behind them";
  const DecoderConfig narrow = whole_config([](DecoderConfig& c) {
    c.head_dim = 12;
    c.block.qkv_bias = true;
  });
  EXPECT_EQ(fused_in(narrow, {.no_decay = {.bias = true}}), (FusedOut{0, 480}))
      << "biases of 72 and 24 have gaps between them";
  EXPECT_EQ(fused_in(whole_config(), {.share = {.index = 1, .count = 2}}),
            (FusedOut{48 + 2 * 16, 240}));
  EXPECT_EQ(
      fused_in(
          whole_config(),
          {.trains = [](const std::string& name) { return name.find("k_proj") == name.npos; }}),
      (FusedOut{0, 480}))
      << "a frozen matrix lies elsewhere";
  EXPECT_EQ(fused_in(whole_config(), {.lora = {.rank = 2, .targets = {"up_proj"}}}),
            (FusedOut{0, 0}));
  const DecoderConfig stacked =
      read_config(ConfigReader(testing::TempDir() + "/fm_units_Phi3.json"));
  EXPECT_EQ(fused_in(stacked),
            (FusedOut{stacked.q_width() + 2 * stacked.kv_width(), 2 * stacked.ffn}))
      << "parts of one matrix";
  const DecoderConfig shared = whole_config([](DecoderConfig& c) { c.heads = 8; });
  for (const int index : {0, 1, 3}) {
    EXPECT_EQ(fused_in(shared, {.share = {.index = index, .count = 4}}), (FusedOut{0, 120}))
        << "two ranks hold the same keys and values";
  }
  int fusing = 0;
  for (const Variant& each : fused_variants()) {
    const FusedOut out = fused_in(each.config);
    fusing += out.qkv > 0 && out.gate_up > 0 ? 1 : 0;
  }
  EXPECT_GE(fusing, 20) << "of " << fused_variants().size();
}

std::vector<float> copy_of(const float* from, std::int64_t count) { return {from, from + count}; }

TEST(Gradients, AddingTwiceIsTheSumAndGapsAreNeverTouched) {
  DecoderConfig config = odd_config();
  config.hidden = 50;  // norms of 50 leave gaps of 14
  UnitRun run(config, kShape);
  run.forward_and_backward(1.0);
  for (int unit = 0; unit < run.model().head_unit(); ++unit) {
    const core::ParamTable& table = run.model().table(unit);
    const std::vector<float> once = copy_of(run.gradients(unit), table.elements().count());
    run.backward_weight(unit, Write::kAdd);
    float largest = 0.0F;
    for (const float value : once) largest = std::max(largest, std::abs(value));  // skips gaps
    for (std::size_t i = 0; i < once.size(); ++i) {
      const auto at = core::Elements(static_cast<std::int64_t>(i));
      if (table.find_at(at) == nullptr) {
        EXPECT_TRUE(std::isnan(run.gradients(unit)[i])) << "gap at " << i;
        continue;
      }
      // Element by element: NaN is below nothing.
      ASSERT_LT(std::abs(run.gradients(unit)[i] - 2.0F * once[i]), 1e-6F * largest)
          << "unit " << unit << " at " << i;
    }
  }
}

TEST(Gradients, HeadAddsToWhatItFinds) {
  for (const bool tied : {false, true}) {
    DecoderConfig config = odd_config();
    config.tied = tied;
    UnitRun run(config, kShape);
    const int head = run.model().head_unit();
    for (int unit = 0; unit < head; ++unit) run.forward(unit);
    const std::vector<float> hidden = copy_of(run.f32_input_of(head), run.hidden_elements());
    run.loss(0.5, Write::kAssign);
    const core::ParamTable& table = run.model().table(head);
    const std::int64_t matrix = run.model().table(0).elements().count();
    const std::vector<float> once = copy_of(run.gradients(head), table.elements().count());
    const std::vector<float> once_tied = copy_of(run.tied_gradients(), matrix);
    std::ranges::copy(hidden, run.f32_input_of(head));
    run.loss(0.5, Write::kAdd);
    for (const core::ParamEntry& entry : table.entries()) {
      const at::Tensor doubled = 2.0 * tensor_of(once.data() + entry.offset.count(), entry.shape);
      EXPECT_LT(difference(doubled, run.gradient(head, entry)), 1e-6) << entry.name;
    }
    if (!tied) continue;
    EXPECT_LT(difference(2.0 * tensor_of(once_tied.data(), {matrix}), run.tied_gradients()), 1e-6);
  }
}

TEST(Head, ManyChunksEqualTheTwin) {
  DecoderConfig config = odd_config();
  config.vocab = 70001;  // 128 rows per chunk: 2 x 129 tokens are three chunks, the last of 2
  config.layers = 0;
  const core::BatchShape shape{.batch = 2, .seq_len = 129};
  ASSERT_EQ(logits_chunk_rows(shape.tokens(), config.vocab), 128);
  UnitRun run(config, shape);
  const DecoderTwin twin = twin_of(config, run);
  run.forward(0);
  const at::Tensor x = tensor_of(run.f32_input_of(1), {shape.batch, shape.seq_len, config.hidden})
                           .set_requires_grad(true);
  const at::Tensor expected = twin.loss_sum(run.input(), x);
  (expected * 0.01).backward();
  EXPECT_NEAR(run.evaluate(), expected.item<double>(), 1e-6 * expected.item<double>());
  const double evaluated = run.evaluate();
  EXPECT_EQ(run.loss(0.01, Write::kAssign), evaluated);
  EXPECT_LT(difference(x.grad(), run.f32_input_of(1)), kTolerance);
  for (const core::ParamEntry& entry : run.model().table(1).entries()) {
    EXPECT_LT(difference(twin.gradient(entry.name), run.gradient(1, entry)), kTolerance);
  }
}

TEST(Head, InBf16ChunksGiveTheLossOfEvaluationAndLogitsOfTheTwin) {
  DecoderConfig config = odd_config();
  config.vocab = 70001;
  config.layers = 0;
  UnitRun run(config, {.batch = 2, .seq_len = 129}, {}, core::DType::kBF16);
  const DecoderTwin twin = twin_of(config, run);
  run.forward(0);
  std::vector<float> logits(static_cast<std::size_t>(config.vocab));
  run.logits(run.input_of(1), logits.data());
  const auto row = run.values(run.input_of(1), config.hidden);
  const at::Tensor expected = twin.logits(tensor_of(row.data(), {1, 1, config.hidden}));
  EXPECT_LT(difference(expected.flatten(), logits.data()), 0x1p-8);
  const double evaluated = run.evaluate();
  EXPECT_EQ(run.loss(0.01, Write::kAssign), evaluated);
}

TEST(Head, ChunkRowsFollowFromTheSizesOnly) {
  EXPECT_EQ(logits_chunk_rows(100'000, 32000), 256);   // 262 rows are 32 MB; a multiple of 16
  EXPECT_EQ(logits_chunk_rows(100'000, 128256), 128);  // at least 128
  EXPECT_EQ(logits_chunk_rows(100, 259), 100);         // never more than there are
  // 4,186 rows of 6 bytes a number are 3 GiB; a multiple of 256.
  EXPECT_EQ(logits_chunk_rows(100'000, 128256, LogitChunks::kOfCard), 4096);
  EXPECT_EQ(logits_chunk_rows(100'000, 3'000'000, LogitChunks::kOfCard), 256);
  EXPECT_EQ(logits_chunk_rows(1000, 32000, LogitChunks::kOfCard), 1000);
}

// 777 columns lie 832 apart, but where a bias is added. This CPU's products may round otherwise.
TEST(Head, RowsOfLogitsOfACardLieApart) {
  EXPECT_EQ(logits_stride(777, LogitChunks::kOfCpu), 777);
  EXPECT_EQ(logits_stride(50257, LogitChunks::kOfCard), 50304);
  EXPECT_EQ(logits_stride(128256, LogitChunks::kOfCard), 128256);
  for (const bool has_bias : {false, true}) {
    for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
      DecoderConfig config = odd_config();
      config.head_bias = has_bias;
      config.logits_scale = 0.5;
      config.logits_softcap = 20.0;
      UnitRun here(config, kShape, {.element = element});
      UnitRun apart(config, kShape, {.element = element, .logit_chunks = LogitChunks::kOfCard});
      const int head = here.model().head_unit();
      const auto scratch = [&](UnitRun& run) {
        return static_cast<double>(run.model().sizes(head, kShape, 1).scratch.count());
      };
      const std::int64_t bytes = element == core::DType::kF32 ? 4 : 4 + 2;
      const std::int64_t more = has_bias ? 0 : bytes * kShape.tokens() * (832 - 777);
      EXPECT_NEAR(scratch(apart) - scratch(here), static_cast<double>(more), 128.0);
      EXPECT_EQ(apart.forward_and_backward(0.5), here.forward_and_backward(0.5));
      for (const core::ParamEntry& entry : here.model().table(head).entries()) {
        const at::Tensor expected = tensor_of(here.gradient(head, entry), entry.shape);
        EXPECT_LT(difference(expected, apart.gradient(head, entry)), 1e-6) << entry.name;
      }
      const std::int64_t table = 777 * config.hidden;
      EXPECT_LT(difference(tensor_of(here.gradients(0), {table}), apart.gradients(0)), 0x1p-7);
    }
  }
}

TEST(Head, LogitsOfOneRowEqualTheTwin) {
  for (const bool tied : {false, true}) {
    DecoderConfig config = odd_config();
    config.tied = tied;
    UnitRun run(config, kShape);
    const DecoderTwin twin = twin_of(config, run);
    run.forward(0);
    std::vector<float> logits(static_cast<std::size_t>(config.vocab));
    run.logits(run.f32_input_of(1) + 5 * config.hidden, logits.data());
    const at::Tensor row =
        tensor_of(run.f32_input_of(1) + 5 * config.hidden, {1, 1, config.hidden});
    EXPECT_LT(difference(twin.logits(row).flatten(), logits.data()), kTolerance);
  }
}

TEST(Embedding, AssignZeroesRowsOfAbsentTokens) {
  UnitRun run(odd_config(), {.batch = 1, .seq_len = 3});
  run.forward_and_backward(1.0);
  const float* table = run.gradients(0);
  std::int64_t zero_rows = 0;
  for (std::int64_t row = 0; row < 777; ++row) {
    zero_rows +=
        std::all_of(table + row * 96, table + (row + 1) * 96, [](float g) { return g == 0; });
  }
  EXPECT_EQ(zero_rows, 774);
}

TEST(Embedding, ThePadAsAnInputTeachesNothing) {
  DecoderConfig config = odd_config();
  const core::BatchShape shape{.batch = 1, .seq_len = 7};
  const auto gradients = [&](std::int64_t pad_id) {
    config.pad_id = pad_id;
    UnitRun run(config, shape);
    const std::vector<std::int32_t> tokens{5, 5, 9, 5, 8, 9, 5};
    std::ranges::copy(tokens, run.tokens_BT().begin());
    run.forward_and_backward(1.0);
    return copy_of(run.gradients(0), config.vocab * config.hidden);
  };
  const std::vector<float> plain = gradients(-1);
  std::vector<float> padded = gradients(5);
  const auto row = padded.begin() + 5 * config.hidden;
  EXPECT_EQ(std::count(row, row + config.hidden, 0.0F), config.hidden);
  EXPECT_NE(plain[static_cast<std::size_t>(5 * config.hidden)], 0.0F);
  std::copy_n(plain.begin() + 5 * config.hidden, config.hidden, row);
  EXPECT_EQ(padded, plain);
}

TEST(Head, WithoutACountedLabelEverythingIsExactlyZero) {
  for (const bool tied : {false, true}) {
    DecoderConfig config = odd_config();
    config.tied = tied;
    UnitRun run(config, kShape);
    const int head = run.model().head_unit();
    for (int unit = 0; unit < head; ++unit) run.forward(unit);
    std::ranges::fill(run.labels_BT(), -100);
    EXPECT_EQ(run.evaluate(), 0.0);
    EXPECT_EQ(run.loss(0.5, Write::kAssign), 0.0);
    const auto all_zero = [](const float* values, std::int64_t count) {
      return std::all_of(values, values + count, [](float value) { return value == 0.0F; });
    };
    EXPECT_TRUE(all_zero(run.f32_input_of(head), run.hidden_elements()));
    for (const core::ParamEntry& entry : run.model().table(head).entries()) {
      EXPECT_TRUE(all_zero(run.gradient(head, entry), entry.numel.count())) << entry.name;
    }
    if (tied) {
      EXPECT_TRUE(all_zero(run.tied_gradients(), 777 * 96));
    }
  }
}

TEST(Model, ThreadsThatTrainAtOnceGetTheSameBits) {
  constexpr int kThreads = 4;
  std::vector<std::unique_ptr<UnitRun>> runs;
  std::vector<double> losses(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    runs.push_back(std::make_unique<UnitRun>(odd_config(), core::BatchShape{2, 65}));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto at = static_cast<std::size_t>(i);
      losses[at] = runs[at]->forward_and_backward(0.01);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 1; i < kThreads; ++i) {
    EXPECT_EQ(losses[i], losses[0]);
    for (int unit = 0; unit < runs[0]->model().unit_count(); ++unit) {
      for (const core::ParamEntry& entry : runs[0]->model().table(unit).entries()) {
        const float* mine = runs[i]->gradient(unit, entry);
        EXPECT_TRUE(std::equal(mine, mine + entry.numel.count(), runs[0]->gradient(unit, entry)))
            << entry.name;
      }
    }
  }
}

}  // namespace
}  // namespace fm::model
