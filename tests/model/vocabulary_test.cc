// Ids at the end of the vocabulary and outside of it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "model/attention/rope_frequencies.h"
#include "tests/model/decoder_twin.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr core::BatchShape kShape{.batch = 2, .seq_len = 13};

TEST(Embedding, TokenOutsideTheVocabularyIsADefect) {
  for (const std::int32_t token : {777, -1}) {
    UnitRun run(odd_config(), kShape);
    run.tokens_BT().back() = token;
    EXPECT_THROW(run.forward(0), core::BugError) << token;
    run.tokens_BT().back() = 776;
    run.forward(0);
    const std::int64_t hidden = run.model().hidden;
    const std::vector<float> out = run.values(run.input_of(1), run.hidden_elements());
    const std::vector<float> matrix = run.values(run.weights(0), 777 * hidden);
    EXPECT_TRUE(std::equal(out.end() - hidden, out.end(), matrix.end() - hidden));
  }
}

TEST(Head, LabelOutsideTheVocabularyIsADefect) {
  const DecoderConfig config = odd_config();
  UnitRun run(config, kShape);
  for (const std::int32_t label : {777, -1, -101}) {
    run.labels_BT().back() = label;
    EXPECT_THROW(run.evaluate(), core::BugError) << label;
    EXPECT_THROW(run.loss(1.0, Write::kAssign), core::BugError) << label;
  }
  run.labels_BT().back() = 776;
  const int head = run.model().head_unit();
  DecoderTwin twin(config, kShape.seq_len);
  const core::ParamTable& table = run.model().table(head);
  twin.add_leaves(table, run.values(run.weights(head), table.elements().count()).data());
  for (int unit = 0; unit < head; ++unit) run.forward(unit);
  const at::Tensor hidden =
      tensor_of(run.f32_input_of(head), {kShape.batch, kShape.seq_len, run.model().hidden});
  const double expected = twin.loss_sum(run.input(), hidden).item<double>();
  EXPECT_NEAR(run.evaluate(), expected, 1e-6 * expected);
}

}  // namespace
}  // namespace fm::model
