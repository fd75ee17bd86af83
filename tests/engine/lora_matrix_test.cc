// The canonical order keeps its promise (docs/numbers.md, "Order of sums") where adapters are
// trained, and dropout drops the same in every layout.
#include <gtest/gtest.h>

#include <fstream>

#include "model/units/lora.h"
#include "small_run.h"
#include "tests/model/family_jsons.h"
#include "two_rank_layouts.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

struct Adapted {
  std::string name;
  std::string config = {};  // "": the small model
  bool tied = false;
  core::DType element = core::DType::kF32;
  std::vector<std::string> targets = {model::kAllLinear};
  std::vector<std::string> modules_to_save = {};
};

std::vector<Adapted> all_adapted() {
  std::vector<Adapted> out = {
      {.name = "Untied", .modules_to_save = {"lm_head", "norm"}},
      {.name = "TiedBf16", .tied = true, .element = core::DType::kBF16, .targets = {"v_proj"}}};
  for (const model::FamilyJson& family : model::family_jsons()) {
    const std::string name = family.name;
    if (name == "Gpt2" || name == "GptNeox" || name == "Phi3") {
      out.push_back({.name = name, .config = family.text});
    }
  }
  return out;
}

class LoraMatrix : public testing::TestWithParam<Adapted> {};

TEST_P(LoraMatrix, EqualsOneRankBitForBit) {
  const Adapted& at = GetParam();
  TrainOptions options = small_options(testing::TempDir() + "/fm_lora_matrix", at.tied);
  if (!at.config.empty()) {
    options.model_config = testing::TempDir() + "/fm_lora_matrix/" + at.name + ".json";
    std::ofstream(options.model_config) << at.config;
  }
  options.sum_order = core::SumOrder::kCanonical;
  options.element = at.element;
  options.lora.r = 3;
  options.lora.alpha = 5.0;
  options.lora.dropout = 0.3;
  options.lora.targets = at.targets;
  options.lora.modules_to_save = at.modules_to_save;
  const RunTrace alone = run_small(options, 1, kSteps);
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  expect_same_bits_of_two(options, alone, kSteps);
}

INSTANTIATE_TEST_SUITE_P(All, LoraMatrix, testing::ValuesIn(all_adapted()),
                         [](const auto& adapted) { return adapted.param.name; });

}  // namespace
}  // namespace fm::engine
