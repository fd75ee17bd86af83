// Documents side by side in rows give the loss and the gradients that they give in runs of their
// own, one by one, in every family: nothing of another document is attended to, and positions
// begin with a document.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "model/attention/rope_frequencies.h"
#include "model/families/families.h"
#include "tests/model/decoder_twin.h"
#include "tests/model/family_jsons.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr double kScale = 1.0 / 40.0;
// Of a number of a gradient, over the largest of its tensor: what fp32 loses of fp64, in rows as in
// runs of their own. Measured are 3.3e-6 at most (Qwen 3), and 2.0e-6 both ways in the rows of an
// embedding (Phi-3), to which one token contributes each: no order of sums brings the two closer.
constexpr double kRounding = 2e-5;
// Of the gradient as a whole, in rows and in runs of their own: 3e-7 to 1.9e-6.
constexpr double kApart = 8e-6;
constexpr core::BatchShape kRows{.batch = 2, .seq_len = 24};
// Of a token, of a few, and longer than longrope's original positions.
const std::vector<std::int64_t> kLengths = {5, 1, 11, 7, 20, 4};

DecoderConfig config_of(const FamilyJson& family) {
  const std::string path = testing::TempDir() + "/fm_documents_" + family.name + ".json";
  std::ofstream(path) << family.text;
  return read_config(ConfigReader(path));
}

// In fp64 the sum over runs; the gradient of a tied matrix is that of both ends.
struct Outcome {
  double loss = 0.0;
  std::map<std::string, std::vector<double>> gradients;

  void add(UnitRun& run) {
    loss += run.forward_and_backward(kScale);
    const Model& model = run.model();
    for (int unit = 0; unit < model.unit_count(); ++unit) {
      for (const core::ParamEntry& entry : model.table(unit).entries()) {
        add(entry, run.gradient(unit, entry));
      }
    }
    if (!model.tied) return;
    const core::ParamEntry& matrix = model.table(0).at(0);
    add(matrix, run.tied_gradients() + matrix.offset.count());
  }
  template <class Float>
  void add(const core::ParamEntry& entry, const Float* from) {
    std::vector<double>& to = gradients[entry.name];
    to.resize(static_cast<std::size_t>(entry.numel.count()));
    for (double& number : to) number += static_cast<double>(*from++);
  }
};

// run(document's length, its first token's place) for all.
template <class Run>
void for_every_document(const Run& run) {
  std::int64_t first = 0;
  for (const std::int64_t length : kLengths) {
    run(length, first);
    first += length;
  }
}

Outcome one_by_one(const DecoderConfig& config, UnitRun& rows) {
  Outcome sum;
  for_every_document([&](std::int64_t length, std::int64_t first) {
    UnitRun alone(config, {.batch = 1, .seq_len = length});
    for (int unit = 0; unit < rows.model().unit_count(); ++unit) {
      const auto bytes = core::bytes_of(rows.model().table(unit).elements(), core::DType::kF32);
      std::memcpy(alone.weights(unit), rows.weights(unit), static_cast<std::size_t>(bytes.count()));
    }
    std::copy_n(rows.tokens_BT().begin() + first, length, alone.tokens_BT().begin());
    std::copy_n(rows.labels_BT().begin() + first, length, alone.labels_BT().begin());
    sum.add(alone);
  });
  return sum;
}

// The same by models in fp64 and autograd.
Outcome one_by_one_in_fp64(const DecoderConfig& config, UnitRun& rows) {
  Outcome sum;
  const Model& model = rows.model();
  for_every_document([&](std::int64_t length, std::int64_t first) {
    DecoderTwin twin(config, length);
    for (int unit = 0; unit < model.unit_count(); ++unit) {
      twin.add_leaves(model.table(unit), static_cast<const float*>(rows.weights(unit)));
    }
    const UnitInput input = {.shape = {.batch = 1, .seq_len = length},
                             .tokens_BT = rows.tokens_BT().data() + first,
                             .labels_BT = rows.labels_BT().data() + first};
    at::Tensor x_BTD = twin.embed(input);
    for (std::int64_t layer = 0; layer < config.layers; ++layer) x_BTD = twin.block(layer, x_BTD);
    const at::Tensor loss = twin.loss_sum(input, x_BTD);
    (loss * kScale).backward();
    sum.loss += loss.item<double>();
    for (int unit = 0; unit < model.unit_count(); ++unit) {
      for (const core::ParamEntry& entry : model.table(unit).entries()) {
        const at::Tensor gradient = twin.gradient(entry.name).contiguous();
        sum.add(entry, gradient.const_data_ptr<double>());
      }
    }
  });
  return sum;
}

// Over the same of `expected`.
struct Apart {
  double norm = 0.0;     // of the difference
  double largest = 0.0;  // of its numbers
};
Apart apart(const std::vector<double>& got, const std::vector<double>& expected) {
  Apart difference, all;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double gap = got[i] - expected[i];
    difference = {std::hypot(difference.norm, gap), std::max(difference.largest, std::abs(gap))};
    all = {std::hypot(all.norm, expected[i]), std::max(all.largest, std::abs(expected[i]))};
  }
  return {difference.norm / all.norm, difference.largest / all.largest};
}

class Documents : public testing::TestWithParam<FamilyJson> {};

TEST_P(Documents, EqualRunsOfTheirOwn) {
  const DecoderConfig config = config_of(GetParam());
  UnitRun rows(config, kRows);
  const Outcome expected = one_by_one(config, rows);
  const Outcome exact = one_by_one_in_fp64(config, rows);
  std::vector<std::int32_t> starts_BT;
  for (const std::int64_t length : kLengths) {
    const std::int64_t start = std::ssize(starts_BT) % kRows.seq_len;
    starts_BT.insert(starts_BT.end(), static_cast<std::size_t>(length),
                     static_cast<std::int32_t>(start));
  }
  rows.keep_apart(starts_BT);
  Outcome got;
  got.add(rows);
  EXPECT_NEAR(got.loss, expected.loss, 1e-6 * expected.loss);
  ASSERT_EQ(got.gradients.size(), exact.gradients.size());
  std::vector<double> all_in_rows, all_alone;
  for (const auto& [name, in_fp64] : exact.gradients) {
    const std::vector<double>& in_rows = got.gradients.at(name);
    const std::vector<double>& alone = expected.gradients.at(name);
    EXPECT_LE(apart(in_rows, in_fp64).largest, kRounding) << name;
    EXPECT_LE(apart(alone, in_fp64).largest, kRounding) << name;
    all_in_rows.insert(all_in_rows.end(), in_rows.begin(), in_rows.end());
    all_alone.insert(all_alone.end(), alone.begin(), alone.end());
  }
  EXPECT_LE(apart(all_in_rows, all_alone).norm, kApart);
  UnitRun together(config, kRows);
  EXPECT_GT(std::abs(together.forward_and_backward(kScale) - got.loss), 1e-4 * got.loss);
}

INSTANTIATE_TEST_SUITE_P(All, Documents, testing::ValuesIn(family_jsons()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace fm::model
