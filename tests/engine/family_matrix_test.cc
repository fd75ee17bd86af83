// Every family keeps the promise of the canonical order (docs/numbers.md, "Order of sums"): ZeRO
// stage, data ranks, pipeline and recomputation change no bit of losses, norms and weights.
#include <gtest/gtest.h>

#include <fstream>

#include "small_run.h"
#include "tests/model/family_jsons.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

class FamilyMatrix : public testing::TestWithParam<model::FamilyJson> {};

TEST_P(FamilyMatrix, EqualsOneRankBitForBit) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_family_matrix", false);
  options.model_config = testing::TempDir() + "/fm_family_matrix/" + GetParam().name + ".json";
  std::ofstream(options.model_config) << GetParam().text;
  options.sum_order = core::SumOrder::kCanonical;
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

INSTANTIATE_TEST_SUITE_P(All, FamilyMatrix, testing::ValuesIn(model::family_jsons()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace fm::engine
