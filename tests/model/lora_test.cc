// Adapters against the autograd twin in fp64, for every family.
#include "model/units/lora.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/check.h"
#include "model/attention/rope_frequencies.h"
#include "model/families/families.h"
#include "tests/model/decoder_twin.h"
#include "tests/model/family_jsons.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr double kTolerance = 2e-5;  // 4.8e-6 was measured
constexpr core::BatchShape kShape{.batch = 2, .seq_len = 13};
constexpr double kScale = 1.75;

DecoderConfig config_of(const FamilyJson& family) {
  const std::string path = testing::TempDir() + "/fm_lora_" + family.name + ".json";
  std::ofstream(path) << family.text;
  return read_config(ConfigReader(path));
}

ModelChoices all_linear(double dropout = 0.0) {
  return {.lora = {.rank = 3, .scale = kScale, .dropout = dropout, .targets = {kAllLinear}}};
}

class Lora : public testing::TestWithParam<FamilyJson> {};

// Base weights are trained here, too: backward goes through both.
TEST_P(Lora, EveryGradientEqualsTheAutogradTwin) {
  const DecoderConfig config = config_of(GetParam());
  UnitRun run(config, kShape, all_linear());
  DecoderTwin twin(config, kShape.seq_len);
  twin.set_lora_scale(kScale);
  for (int unit = 0; unit < run.model().unit_count(); ++unit) {
    const core::ParamTable& table = run.model().table(unit);
    twin.add_leaves(table, run.values(run.weights(unit), table.elements().count()).data());
  }
  at::Tensor hidden = twin.embed(run.input());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) hidden = twin.block(layer, hidden);
  const at::Tensor expected = twin.loss_sum(run.input(), hidden);
  expected.backward();
  EXPECT_NEAR(run.forward_and_backward(1.0), expected.item<double>(),
              1e-6 * expected.item<double>());
  int adapters = 0;
  for (int unit = 1; unit < run.model().head_unit(); ++unit) {
    for (const core::ParamEntry& entry : run.model().table(unit).entries()) {
      adapters += is_adapter(entry.name) ? 1 : 0;
      EXPECT_LT(difference(twin.gradient(entry.name), run.gradient(unit, entry)), kTolerance)
          << entry.name;
    }
  }
  EXPECT_GE(adapters, 8 * config.layers);  // at least four matrices with two factors each
}

// Forward is linear in each factor: a finite difference of the loss by one element shows whether
// backward drops what forward dropped.
TEST_P(Lora, BackwardDropsWhatForwardDropped) {
  const DecoderConfig config = config_of(GetParam());
  UnitRun run(config, kShape, all_linear(0.4));
  UnitRun without(config, kShape, all_linear());
  run.train_in({.seed = 3, .step = 2, .first_sample = 17});
  const double loss = run.forward_and_backward(1.0);
  EXPECT_NE(loss, without.forward_and_backward(1.0));
  constexpr float kStep = 2e-2F;
  for (const core::ParamEntry& entry : run.model().table(1).entries()) {
    if (!is_adapter(entry.name)) continue;
    const float* const gradient = run.gradient(1, entry);
    const std::int64_t count = entry.numel.count();
    const std::int64_t at =
        std::max_element(gradient, gradient + count,
                         [](float a, float b) { return std::abs(a) < std::abs(b); }) -
        gradient;
    const float slope = gradient[at];
    float* const weight = static_cast<float*>(run.weights(1)) + entry.offset.count() + at;
    const float before = *weight;
    const auto loss_at = [&](float value) {
      *weight = value;
      for (int unit = 0; unit < run.model().head_unit(); ++unit) run.forward(unit);
      return run.evaluate();
    };
    const double apart = loss_at(before + kStep) - loss_at(before - kStep);
    *weight = before;
    EXPECT_NEAR(apart / (2.0 * double{kStep}), slope, 0.05 * std::abs(slope)) << entry.name;
  }
}

TEST_P(Lora, RecomputationFillsTheSameBits) {
  UnitRun run(config_of(GetParam()), kShape, all_linear(0.3));
  run.train_in({.seed = 3, .step = 2, .first_sample = 2});
  run.forward(0);
  run.forward(1);
  const std::vector<std::byte> first(run.kept(1).begin(), run.kept(1).end());
  std::ranges::fill(run.kept(1), std::byte{0});
  run.forward(1, nullptr);
  EXPECT_TRUE(std::ranges::equal(first, run.kept(1)));
}

INSTANTIATE_TEST_SUITE_P(Families, Lora, testing::ValuesIn(family_jsons()),
                         [](const auto& family) { return family.param.name; });

TEST(LoraTargets, AreTheEndsOfNamesAndMustBeThere) {
  const DecoderConfig config = odd_config();
  const auto targets = [&](std::vector<std::string> names) {
    return targets_of(config, {.rank = 1, .targets = std::move(names)});
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(targets({}), (Names{"q_proj", "v_proj"}));
  EXPECT_EQ(targets({"mlp.up_proj"}), Names{"mlp.up_proj"});
  EXPECT_EQ(targets({kAllLinear}).size(), 7U);
  EXPECT_TRUE(targets_of(config, {}).empty());
  EXPECT_THROW(targets({"proj"}), core::UserError);
  EXPECT_THROW(targets({"lm_head"}), core::UserError);
}

// peft writes "all-linear" as full names where a model has fewer than 20 matrices.
TEST(LoraTargets, MayBeFullNamesOfEveryLayer) {
  const DecoderConfig config = odd_config();
  ASSERT_GE(config.layers, 2);
  const auto targets = [&](std::vector<std::string> names) {
    return targets_of(config, {.rank = 1, .targets = std::move(names)});
  };
  using Names = std::vector<std::string>;
  Names full;
  Names ends;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string number = std::to_string(layer);
    full.push_back("model.layers." + number + ".mlp.up_proj");
    ends.push_back(number + ".self_attn.q_proj");
  }
  EXPECT_EQ(targets(full), Names{"mlp.up_proj"});
  EXPECT_EQ(targets(ends), Names{"self_attn.q_proj"});
  Names mixed = full;
  mixed.push_back("v_proj");
  mixed.push_back("model.layers.0.self_attn.v_proj");
  EXPECT_EQ(targets(mixed), (Names{"v_proj", "mlp.up_proj"}));
  full.pop_back();
  const auto refusal = [&] {
    try {
      targets(full);
    } catch (const core::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string said = refusal();
  EXPECT_NE(said.find("all layers must have the same adapters; name the module of every layer, or "
                      "mlp.up_proj alone"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("model.layers." + std::to_string(config.layers - 1) + ".mlp.up_proj is not"),
            std::string::npos)
      << said;
  EXPECT_THROW(targets({"model.layers.0.mlp.odd_proj"}), core::UserError);
  EXPECT_THROW(targets({"layers.0"}), core::UserError);
  EXPECT_THROW(targets({"model.layers." + std::to_string(config.layers) + ".mlp.up_proj"}),
               core::UserError);
}

}  // namespace
}  // namespace fm::model
