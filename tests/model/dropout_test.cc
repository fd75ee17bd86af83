// Dropout of every family against the autograd twin, whose masks are made by the definition; none
// in evaluation.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/attention/rope_frequencies.h"
#include "model/families/families.h"
#include "tests/model/decoder_twin.h"
#include "tests/model/family_jsons.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr core::BatchShape kShape{.batch = 2, .seq_len = 13};
constexpr StepDropout kStep = {.seed = 11, .step = 5, .first_sample = 6};

class FamilyDropout : public testing::TestWithParam<FamilyJson> {
 protected:
  static DecoderConfig config() {
    const std::string path = testing::TempDir() + "/fm_dropout_" + GetParam().name + ".json";
    std::ofstream(path) << GetParam().text;
    DecoderConfig config = read_config(ConfigReader(path));
    config.dropout = {.embedding = 0.1, .attention = 0.3, .residual = 0.2};
    return config;
  }
};

TEST_P(FamilyDropout, LossAndEveryGradientEqualTheAutogradTwin) {
  UnitRun run(config(), kShape);
  run.train_in(kStep);
  DecoderTwin twin(config(), kShape.seq_len);
  twin.drop_by(kStep);
  for (int unit = 0; unit < run.model().unit_count(); ++unit) {
    const core::ParamTable& table = run.model().table(unit);
    twin.add_leaves(table, run.values(run.weights(unit), table.elements().count()).data());
  }
  at::Tensor hidden = twin.embed(run.input());
  for (std::int64_t layer = 0; layer < config().layers; ++layer) hidden = twin.block(layer, hidden);
  const at::Tensor expected = twin.loss_sum(run.input(), hidden);
  expected.backward();
  EXPECT_NEAR(run.forward_and_backward(1.0), expected.item<double>(),
              1e-6 * expected.item<double>());
  if (run.model().tied) {
    const std::int64_t count = run.model().table(0).elements().count();
    for (std::int64_t i = 0; i < count; ++i) run.gradients(0)[i] += run.tied_gradients()[i];
  }
  for (int unit = 0; unit < run.model().unit_count(); ++unit) {
    for (const core::ParamEntry& entry : run.model().table(unit).entries()) {
      EXPECT_LT(difference(twin.gradient(entry.name), run.gradient(unit, entry)), 2e-5)
          << entry.name;
    }
  }
}

TEST_P(FamilyDropout, EvaluationDropsNothing) {
  DecoderConfig dry = config();
  dry.dropout = {};
  UnitRun without(dry, kShape);
  UnitRun with(config(), kShape);
  EXPECT_EQ(with.forward_and_backward(1.0), without.forward_and_backward(1.0));
  with.train_in(kStep);
  EXPECT_NE(with.forward_and_backward(1.0), without.forward_and_backward(1.0));
}

INSTANTIATE_TEST_SUITE_P(All, FamilyDropout, testing::ValuesIn(family_jsons()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace fm::model
