// Documents side by side in rows give the loss and the gradients that they give in runs of their
// own, one by one, in every family: nothing of another document is attended to, and positions
// begin with a document.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "model/families.h"
#include "tests/model/family_jsons.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr double kScale = 1.0 / 40.0;
constexpr double kRounding = 3e-6;  // of gradients, which are fp32 sums over other rows
constexpr core::BatchShape kRows{.batch = 2, .seq_len = 24};
// Of a token, of a few, and longer than longrope's original positions.
const std::vector<std::int64_t> kLengths = {5, 1, 11, 7, 20, 4};

DecoderConfig config_of(const FamilyJson& family) {
  const std::string path = testing::TempDir() + "/fm_documents_" + family.name + ".json";
  std::ofstream(path) << family.text;
  return read_config(ConfigReader(path));
}

// In fp64 the sum over runs.
struct Outcome {
  double loss = 0.0;
  std::vector<std::vector<double>> gradients;  // by unit; of a tied matrix beside the head's

  void add(UnitRun& run) {
    loss += run.forward_and_backward(kScale);
    const Model& model = run.model();
    gradients.resize(static_cast<std::size_t>(model.unit_count()) + 1);
    for (int unit = 0; unit < model.unit_count(); ++unit) {
      for (const core::ParamEntry& entry : model.table(unit).entries()) {
        add(unit, run.gradient(unit, entry), model.table(unit).elements().count(), entry);
      }
    }
    if (!model.tied) return;
    const core::ParamTable& table = model.table(0);
    add(model.unit_count(), run.tied_gradients() + table.at(0).offset.count(),
        table.elements().count(), table.at(0));
  }

 private:
  void add(int place, const float* from, std::int64_t elements, const core::ParamEntry& entry) {
    std::vector<double>& to = gradients[static_cast<std::size_t>(place)];
    to.resize(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < entry.numel.count(); ++i) {
      to[static_cast<std::size_t>(entry.offset.count() + i)] += static_cast<double>(from[i]);
    }
  }
};

Outcome one_by_one(const DecoderConfig& config, UnitRun& rows) {
  Outcome sum;
  std::int64_t first = 0;
  for (const std::int64_t length : kLengths) {
    UnitRun alone(config, {.batch = 1, .seq_len = length});
    for (int unit = 0; unit < rows.model().unit_count(); ++unit) {
      const auto bytes = core::bytes_of(rows.model().table(unit).elements(), core::DType::kF32);
      std::memcpy(alone.weights(unit), rows.weights(unit), static_cast<std::size_t>(bytes.count()));
    }
    for (std::int64_t i = 0; i < length; ++i) {
      const auto from = static_cast<std::size_t>(first + i);
      alone.tokens_BT()[static_cast<std::size_t>(i)] = rows.tokens_BT()[from];
      alone.labels_BT()[static_cast<std::size_t>(i)] = rows.labels_BT()[from];
    }
    sum.add(alone);
    first += length;
  }
  return sum;
}

class Documents : public testing::TestWithParam<FamilyJson> {};

TEST_P(Documents, EqualRunsOfTheirOwn) {
  const DecoderConfig config = config_of(GetParam());
  UnitRun rows(config, kRows);
  const Outcome expected = one_by_one(config, rows);
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
  for (std::size_t place = 0; place < got.gradients.size(); ++place) {
    double largest = 0.0;
    double difference = 0.0;
    for (std::size_t i = 0; i < got.gradients[place].size(); ++i) {
      const double one = expected.gradients[place][i];
      largest = std::max(largest, std::abs(one));
      difference = std::max(difference, std::abs(got.gradients[place][i] - one));
    }
    EXPECT_LE(difference, kRounding * largest) << "unit " << place;
  }
  UnitRun together(config, kRows);
  EXPECT_GT(std::abs(together.forward_and_backward(kScale) - got.loss), 1e-4 * got.loss);
}

INSTANTIATE_TEST_SUITE_P(All, Documents, testing::ValuesIn(family_jsons()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace fm::model
