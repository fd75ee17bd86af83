// Decoding with a cache gives the logits of forward over the whole row, for every family.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>

#include "core/buffer.h"
#include "core/element.h"
#include "kernels/pointwise/elements.h"
#include "model/opened_model.h"
#include "tests/model/family_jsons.h"

namespace fm::model {
namespace {

using Ids = std::vector<std::int32_t>;
using Floats = std::vector<float>;

constexpr std::int64_t kCapacity = 30;

// A sequence as the engine keeps it.
struct Row {
  Ids ids;
  std::int64_t read = 0;
  core::Buffer cache = {};
};

// A small model with random weights.
class SmallModel {
 public:
  explicit SmallModel(const std::string& json, core::DType element = core::DType::kF32) {
    const std::string path = testing::TempDir() + "/fm_decode_config.json";
    std::ofstream(path) << json;
    opened_ = open_model(path, {.element = element});
    std::mt19937 bits(5);
    for (int unit = 0; unit < model().unit_count(); ++unit) make_weights(unit, bits);
  }

  const Model& model() const { return opened_.model; }
  std::int64_t rope_switch() const { return opened_.facts.rope_switch; }
  Ids random_ids(std::int64_t count, unsigned seed) const {
    std::mt19937 bits(seed);
    Ids ids(static_cast<std::size_t>(count));
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(bits() % 777);
    return ids;
  }

  // Of what follows the ids, by the forward pass that training has.
  Floats forward(const Ids& ids) {
    return run(ids,
               [&](const Unit& unit, const UnitCall& call, void* out) { unit.forward(call, out); })
        .back();
  }

  // Reads what is new in every row; what follows each.
  std::vector<Floats> decode(const std::vector<Row*>& rows) {
    std::vector<CachedSequence> parts;
    Ids ids;
    for (Row* row : rows) {
      if (row->cache.data() == nullptr) row->cache = bytes(width() * kCapacity);
      const std::int64_t length = std::ssize(row->ids);
      if (row->read <= rope_switch() && length > rope_switch()) row->read = 0;
      parts.push_back({length - row->read, row->read, kCapacity, row->cache.data()});
      ids.insert(ids.end(), row->ids.begin() + row->read, row->ids.end());
      row->read = length;
    }
    const std::vector<Floats> all =
        run(ids, [&](const Unit& unit, const UnitCall& call, void* out) {
          unit.decode(call, parts, out);
          for (CachedSequence& part : parts) {
            part.cache = static_cast<std::byte*>(part.cache) +
                         unit.cache_width() * kCapacity * core::size_of(model().element).count();
          }
        });
    std::vector<Floats> last;
    std::size_t row = 0;
    for (const CachedSequence& part : parts) {
      row += static_cast<std::size_t>(part.count);
      last.push_back(all[row - 1]);
    }
    return last;
  }

 private:
  core::Buffer bytes(std::int64_t elements) {
    return {ledger_, core::Account::kScratch,
            core::bytes_of(core::Elements(elements), model().element)};
  }
  std::int64_t width() const {
    std::int64_t all = 0;
    for (const auto& unit : model().units) all += unit->cache_width();
    return all;
  }

  void make_weights(int unit, std::mt19937& bits) {
    std::normal_distribution<float> normal;
    const core::ParamTable& table = model().table(unit);
    Floats wide(static_cast<std::size_t>(table.elements().count()));
    for (const core::ParamEntry& entry : table.entries()) {
      const float middle = entry.kind == core::ParamKind::kNorm ? 1.0F : 0.0F;
      for (std::int64_t i = 0; i < entry.numel.count(); ++i) {
        wide[static_cast<std::size_t>(entry.offset.count() + i)] = middle + 0.1F * normal(bits);
      }
    }
    weights_.push_back(bytes(std::ssize(wide)));
    if (model().element == core::DType::kF32) {
      std::ranges::copy(wide, weights_.back().f32());
    } else {
      kernels::cast(core::Work(), std::ssize(wide), wide.data(),
                    static_cast<core::Bf16*>(weights_.back().data()));
    }
  }

  // Logits behind every id.
  template <class Step>
  std::vector<Floats> run(const Ids& ids, const Step& step) {
    const std::int64_t tokens = std::ssize(ids);
    const UnitInput input{.shape = {.batch = 1, .seq_len = tokens}, .tokens_BT = ids.data()};
    core::Buffer hidden[2] = {bytes(tokens * model().hidden), bytes(tokens * model().hidden)};
    for (std::size_t i = 0; i < model().units.size(); ++i) {
      const Unit& unit = *model().units[i];
      const UnitSizes sizes = unit.decode_sizes(tokens, kCapacity, 2);
      const core::Buffer kept(ledger_, core::Account::kScratch, sizes.kept);
      const core::Buffer scratch(ledger_, core::Account::kScratch, sizes.scratch);
      core::Work work{core::Arena(scratch.span()), 2};
      step(unit,
           UnitCall{{.own = weights_[i].data()},
                    input,
                    {.input_BTD = i == 0 ? nullptr : hidden[i % 2].data(), .kept = kept.data()},
                    work},
           hidden[(i + 1) % 2].data());
    }
    return logits(tokens, hidden[model().units.size() % 2].data());
  }

  std::vector<Floats> logits(std::int64_t tokens, const void* hidden_ND) {
    const UnitSizes sizes = model().head->sizes({.batch = 1, .seq_len = tokens});
    const core::Buffer scratch(ledger_, core::Account::kScratch, sizes.scratch);
    core::Work work{core::Arena(scratch.span()), 2};
    Floats all(static_cast<std::size_t>(tokens * model().vocab));
    model().head->logits(
        {.own = weights_.back().data(), .tied = model().tied ? weights_.front().data() : nullptr},
        tokens, hidden_ND, all.data(), work);
    std::vector<Floats> rows;
    for (auto at = all.begin(); at != all.end(); at += model().vocab) {
      rows.emplace_back(at, at + model().vocab);
    }
    return rows;
  }

  core::Ledger ledger_;
  OpenedModel opened_;
  std::vector<core::Buffer> weights_;
};

// By the largest magnitude.
float difference(const Floats& got, const Floats& expected) {
  float most = 0.0F;
  float largest = 0.0F;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(got[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return std::isfinite(largest) ? most / largest : largest;
}

class Decoding : public testing::TestWithParam<FamilyJson> {};

// A prompt, then one, two, three, nine and again one at a time; with windows and the switch of
// longrope in between.
TEST_P(Decoding, GivesTheLogitsOfTheWholeRow) {
  SmallModel model(GetParam().text);
  const Ids all = model.random_ids(kCapacity, 1);
  Row row;
  for (const std::int64_t length : {5, 6, 7, 9, 12, 21, 22}) {
    row.ids.assign(all.begin(), all.begin() + length);
    EXPECT_LT(difference(model.decode({&row})[0], model.forward(row.ids)), 1e-5F) << length;
  }
}

TEST_P(Decoding, ReadsSequencesOfDifferentLengthsTogether) {
  SmallModel model(GetParam().text);
  Row rows[3] = {{model.random_ids(4, 2)}, {model.random_ids(9, 3)}, {model.random_ids(7, 4)}};
  model.decode({&rows[0]});
  model.decode({&rows[1]});
  rows[0].ids.insert(rows[0].ids.end(), {11, 12});
  rows[1].ids.push_back(13);
  const std::vector<Floats> got = model.decode({&rows[0], &rows[1], &rows[2]});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(difference(got[i], model.forward(rows[i].ids)), 1e-5F) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Decoding, testing::ValuesIn(family_jsons()),
                         [](const auto& family) { return family.param.name; });

TEST(NarrowDecoding, IsAsNearAsBf16Is) {
  SmallModel model(family_jsons()[0].text, core::DType::kBF16);
  const Ids all = model.random_ids(12, 1);
  Row row;
  for (const std::int64_t length : {5, 6, 12}) {
    row.ids.assign(all.begin(), all.begin() + length);
    EXPECT_LT(difference(model.decode({&row})[0], model.forward(row.ids)), 0.02F) << length;
  }
}

}  // namespace
}  // namespace fm::model
