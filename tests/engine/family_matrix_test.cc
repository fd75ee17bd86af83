// Every family keeps the promise of the canonical order (docs/numbers.md, "Order of sums"): ZeRO
// stage, data ranks, pipeline and recomputation change no bit of losses, norms and weights.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "document_rows.h"
#include "small_run.h"
#include "tests/model/family_jsons.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

class FamilyMatrix : public testing::TestWithParam<model::FamilyJson> {};

TrainOptions canonical_options(const model::FamilyJson& family) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_family_matrix", false);
  options.model_config = testing::TempDir() + "/fm_family_matrix/" + family.name + ".json";
  std::ofstream(options.model_config) << family.text;
  options.sum_order = core::SumOrder::kCanonical;
  return options;
}

TEST_P(FamilyMatrix, EqualsOneRankBitForBit) {
  TrainOptions options = canonical_options(GetParam());
  const RunTrace alone = run_small(options, 1, kSteps);
  EXPECT_NEAR(alone.losses.front(), 6.655, 0.1);  // ln 777
  EXPECT_NE(alone.losses.front(), alone.losses.back());
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int pipe_ranks : {1, 2}) {
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(testing::Message() << "ZeRO " << zero_stage << ", pipe ranks " << pipe_ranks
                                        << ", recompute " << recompute);
        options.zero_stage = zero_stage;
        options.pipe_parallel_size = pipe_ranks;
        options.recompute = recompute;
        EXPECT_EQ(first_difference(alone, run_small(options, 2, kSteps)), "");
      }
    }
  }
}

// Rope whose frequencies depend on the document's length, and learned positions.
TEST(DocumentMatrix, EqualsOneRankBitForBit) {
  const DocumentRows rows;
  for (const model::FamilyJson& family : model::family_jsons()) {
    if (family.name != "Phi3" && family.name != "Gpt2") continue;
    TrainOptions options = canonical_options(family);
    const RunTrace together = run_small(options, 1, kSteps, &rows);
    options.document_attention = true;
    const RunTrace alone = run_small(options, 1, kSteps, &rows);
    EXPECT_NE(alone.losses, together.losses);
    for (const int zero_stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << family.name << ", ZeRO " << zero_stage);
      options.zero_stage = zero_stage;
      options.pipe_parallel_size = zero_stage % 2 == 0 ? 3 : 2;
      options.recompute = zero_stage > 1;
      EXPECT_EQ(first_difference(alone, run_small(options, 2, kSteps, &rows)), "");
    }
  }
}

// The bits of dropout follow from the sample, the step and the place in the model.
TEST(DropoutMatrix, EqualsOneRankBitForBit) {
  for (const model::FamilyJson& family : model::family_jsons()) {
    if (family.name != "Gpt2" && family.name != "GptNeox") continue;
    TrainOptions options = canonical_options(family);
    const RunTrace dry = run_small(options, 1, kSteps);
    std::ofstream(options.model_config)
        << family.text.substr(0, family.text.rfind('}'))
        << R"(, "attn_pdrop": 0.1, "resid_pdrop": 0.2, "embd_pdrop": 0.3,
              "attention_dropout": 0.1, "hidden_dropout": 0.2})";
    const RunTrace alone = run_small(options, 1, kSteps);
    EXPECT_NE(alone.losses, dry.losses);
    for (const int zero_stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << family.name << ", ZeRO " << zero_stage);
      options.zero_stage = zero_stage;
      options.pipe_parallel_size = zero_stage % 2 == 0 ? 1 : 2;
      options.recompute = zero_stage > 1;
      EXPECT_EQ(first_difference(alone, run_small(options, 2, kSteps)), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyMatrix, testing::ValuesIn(model::family_jsons()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace fm::engine
