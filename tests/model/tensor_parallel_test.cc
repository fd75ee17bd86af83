// Units of several tensor-parallel ranks against the units of one, which others compare with
// autograd and with transformers.
#include "model/units/tensor_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <utility>

#include "comm/meet/world.h"
#include "core/check.h"
#include "core/tensor_slice.h"
#include "model/families/families.h"
#include "model/units/products.h"
#include "tests/model/family_jsons.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

constexpr core::BatchShape kShape{.batch = 2, .seq_len = 15};
constexpr double kTolerance = 2e-5;  // 4.3e-6 was measured

DecoderConfig config_of(const FamilyJson& family) {
  const std::string path = testing::TempDir() + "/fm_tensor_parallel_" + family.name + ".json";
  std::ofstream(path) << family.text;
  return read_config(ConfigReader(path));
}

// run(numbers of a row, the same numbers of the whole tensor) for what a part of a table has.
template <class Run>
void for_every_row(const core::ParamTable& part, float* numbers,
                   const std::map<std::string, float*>& whole, const Run& run) {
  for (const core::TensorSlice& slice : core::cut_slices(
           part, core::Elements(0), part.elements(), core::in_memory(numbers), core::Elements(0))) {
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kWrite);
      run(slice.name, fetched.floats(), whole.at(slice.name) + slice.first_of(row).count());
    }
  }
}

std::map<std::string, float*> tensors_of(const core::ParamTable& table, float* numbers) {
  std::map<std::string, float*> out;
  for (const core::ParamEntry& entry : table.entries()) {
    out[entry.name] = numbers + entry.offset.count();
  }
  return out;
}

float largest_of(const core::ParamTable& table, const std::string& name, const float* numbers) {
  float most = 0.0F;
  for (const core::ParamEntry& entry : table.entries()) {
    if (entry.name != name) continue;
    const float* const from = numbers + entry.offset.count();
    for (std::int64_t i = 0; i < entry.numel.count(); ++i) most = std::max(most, std::abs(from[i]));
  }
  return most;
}

void expect_part_of(UnitRun& whole, UnitRun& part, int unit, double tolerance) {
  const core::ParamTable& table = whole.model().table(unit);
  std::map<std::string, double> worst;
  for_every_row(part.model().table(unit), part.gradients(unit),
                tensors_of(table, whole.gradients(unit)),
                [&](const std::string& name, std::span<const float> mine, const float* expected) {
                  double& most = worst[name];
                  for (std::size_t i = 0; i < mine.size(); ++i) {
                    const double apart = std::abs(double{mine[i]} - double{expected[i]});
                    most = std::isnan(mine[i]) ? INFINITY : std::max(most, apart);
                  }
                });
  for (const auto& [name, most] : worst) {
    const double scale = std::max(1e-3F, largest_of(table, name, whole.gradients(unit)));
    EXPECT_LT(most / scale, tolerance) << name;
  }
}

// To gather n bytes of all ranks, or to scatter sums of n bytes, each sends (ranks - 1) / ranks n;
// to sum, twice that.
double sent_by(const comm::VerbCounts& counts, int ranks) {
  double sent = 0.0;
  for (const auto& [key, row] : counts.rows()) {
    const double ways = key.verb == "all_reduce" ? 2.0 : 1.0;
    sent += ways * static_cast<double>(key.bytes * row.count) * (ranks - 1) / ranks;
  }
  return sent;
}

// What units announced that they send is what was counted. Every call of a unit rounds down.
void expect_announced(const Model& model, const comm::VerbCounts& counts, int ranks) {
  double announced = 0.0;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    const UnitSizes::ToTensorPeers to = model.sizes(unit, kShape, 1).to_tensor_peers;
    announced += static_cast<double>((to.forward + to.output + to.input + to.weight).count());
  }
  const double sent = sent_by(counts, ranks);
  EXPECT_NEAR(announced, sent, 4.0 * model.unit_count());
  EXPECT_GT(sent, 0.0);
}

// Losses and all gradients of `ranks` ranks are those of one.
void expect_alike(const DecoderConfig& config, ModelChoices choices, int ranks,
                  const StepDropout* dropout = nullptr, double tolerance = kTolerance) {
  const bool split_tokens = std::exchange(choices.split_tokens, false);
  UnitRun whole(config, kShape, choices);
  choices.split_tokens = split_tokens;
  if (dropout != nullptr) whole.train_in(*dropout);
  const double expected = whole.forward_and_backward(0.5);
  std::vector<std::unique_ptr<UnitRun>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    choices.share = {.index = rank, .count = ranks};
    parts.push_back(std::make_unique<UnitRun>(config, kShape, choices));
    UnitRun& part = *parts.back();
    if (dropout != nullptr) part.train_in(*dropout);
    std::ranges::copy(whole.tokens_BT(), part.tokens_BT().begin());
    std::ranges::copy(whole.labels_BT(), part.labels_BT().begin());
    for (int unit = 0; unit < part.model().unit_count(); ++unit) {
      for_every_row(part.model().table(unit), static_cast<float*>(part.weights(unit)),
                    tensors_of(whole.model().table(unit), static_cast<float*>(whole.weights(unit))),
                    [](const std::string&, std::span<float> mine, const float* from) {
                      std::copy_n(from, mine.size(), mine.begin());
                    });
    }
  }
  comm::run_ranks(ranks, [&](comm::Communicator& tensor) {
    UnitRun& part = *parts[static_cast<std::size_t>(tensor.rank())];
    comm::VerbCounts counts;
    const auto counted = comm::traced(tensor, &counts);
    part.join(*counted);
    const double sum = part.forward_and_backward(0.5, UnitRun::WeightHalves::kLast);
    EXPECT_NEAR(sum, expected, 1e-6 * expected);
    expect_announced(part.model(), counts, ranks);
  });
  for (const std::unique_ptr<UnitRun>& part : parts) {
    for (int unit = 0; unit < whole.model().unit_count(); ++unit) {
      expect_part_of(whole, *part, unit, tolerance);
    }
  }
}

class TensorParallel : public testing::TestWithParam<FamilyJson> {};

// Six ranks: one query head each, three ranks have a key and value head together, and neither the
// MLP nor the vocabulary can be divided.
TEST_P(TensorParallel, LossAndGradientsAreThoseOfOneRank) {
  for (const int ranks : {2, 6}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    expect_alike(config_of(GetParam()), {}, ranks);
  }
}

// Recomputation of a block whose output nobody reads, with and without adapters and split tokens.
TEST_P(TensorParallel, ABlockWithoutAnOutputSendsWhatItAnnounces) {
  const DecoderConfig config = config_of(GetParam());
  for (const bool adapted : {false, true}) {
    for (const bool split_tokens : {false, true}) {
      comm::run_ranks(2, [&](comm::Communicator& tensor) {
        ModelChoices choices{.share = {.index = tensor.rank(), .count = 2},
                             .split_tokens = split_tokens};
        if (adapted) choices.lora = {.rank = 3, .scale = 1.75, .targets = {kAllLinear}};
        UnitRun part(config, kShape, choices);
        comm::VerbCounts counts;
        const auto counted = comm::traced(tensor, &counts);
        part.join(*counted);
        part.forward(1, nullptr);
        const core::Bytes announced = part.model().sizes(1, kShape, 1).to_tensor_peers.forward;
        EXPECT_NEAR(static_cast<double>(announced.count()), sent_by(counts, 2), 1.0)
            << adapted << split_tokens;
      });
    }
  }
}

// The bits of dropout are those of one rank: keyed by the place in the whole rows.
TEST_P(TensorParallel, AdaptersAndDropoutAreThoseOfOneRank) {
  DecoderConfig config = config_of(GetParam());
  config.dropout = {.embedding = 0.1, .attention = 0.2, .residual = 0.3};
  const ModelChoices choices = {
      .lora = {.rank = 3, .scale = 1.75, .dropout = 0.2, .targets = {kAllLinear}}};
  const StepDropout dropout{.seed = 3, .step = 5, .first_sample = 4};
  for (const int ranks : {2, 6}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    expect_alike(config, choices, ranks, &dropout);
  }
}

// Norms, residuals and dropout of a half, or a sixth, of the tokens.
TEST_P(TensorParallel, WithSplitTokensLossAndGradientsAreThoseOfOneRank) {
  DecoderConfig config = config_of(GetParam());
  config.dropout = {.embedding = 0.1, .attention = 0.2, .residual = 0.3};
  const StepDropout dropout{.seed = 3, .step = 5, .first_sample = 4};
  ModelChoices choices;
  choices.lora = {.rank = 3, .scale = 1.75, .dropout = 0.2, .targets = {kAllLinear}};
  choices.split_tokens = true;
  expect_alike(config, choices, 6, &dropout);
  choices.lora = {};
  expect_alike(config_of(GetParam()), choices, 2);
}

// Of 6 ranks three each hold the same keys and values.
TEST_P(TensorParallel, WithFusedProjectionsLossAndGradientsAreThoseOfOneRank) {
  for (const int ranks : {2, 6}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    expect_alike(config_of(GetParam()), {.fuses_projections = true}, ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorParallel, testing::ValuesIn(family_jsons()),
                         [](const auto& family) { return family.param.name; });

// Every sum is exact in fp32, whatever its order (products of at most 8 x 8, 512 of them).
TEST(TensorParallelProducts, OfWholeNumbersAreBitwiseThoseOfOneRank) {
  constexpr std::int64_t kTokens = 5;
  constexpr std::int64_t kIn = 512;
  constexpr std::int64_t kOut = 24;
  std::mt19937 bits(5);
  std::vector<float> x(kTokens * kIn), weight(kOut * kIn), y(kTokens * kOut);
  for (float& value : x) value = static_cast<float>(static_cast<int>(bits() % 17) - 8);
  for (float& value : weight) value = static_cast<float>(static_cast<int>(bits() % 17) - 8);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t o = 0; o < kOut; ++o) {
      float sum = 0.0F;
      for (std::int64_t i = 0; i < kIn; ++i) sum += x[t * kIn + i] * weight[o * kIn + i];
      y[t * kOut + o] = sum;
    }
  }
  comm::run_ranks(2, [&](comm::Communicator& tensor) {
    const std::int64_t half = kIn / 2;
    const std::int64_t first = tensor.rank() * half;
    std::vector<float> my_x, my_weight;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      my_x.insert(my_x.end(), &x[t * kIn + first], &x[t * kIn + first] + half);
    }
    for (std::int64_t o = 0; o < kOut; ++o) {
      my_weight.insert(my_weight.end(), &weight[o * kIn + first], &weight[o * kIn + first] + half);
    }
    std::vector<std::byte> memory(1 << 20);
    core::Work work{core::Arena(memory), 1};
    const Products<float> products{.work = work,
                                   .tokens = kTokens,
                                   .weights = UnitWeights<float>({.own = my_weight.data()}),
                                   .tensor = &tensor,
                                   .own = {.first = 0, .count = kTokens, .all = kTokens}};
    Projection rows;
    rows.in = rows.stride = half;
    rows.out = kOut;
    rows.weight = {.offset = 0};
    rows.split = Split::kInputs;
    std::vector<float> mine(y.size());
    products.forward(rows, my_x.data(), mine.data());
    EXPECT_EQ(mine, y);
  });
}

// Megatron-LM, tests/unit_tests/tensor_parallel/test_cross_entropy.py: four ranks have logits
// 0, 1, .. 7 four times each, and labels are 0, 2, .. 30. Hidden states of ones, times the first
// column of the head's matrix, give these logits but for the epsilon of the norm.
TEST(TensorParallelHead, LossesAreThoseThatMegatronPublishes) {
  constexpr int kRows = 16;
  constexpr std::array<double, 4> kPublished = {10.2309, 8.2309, 6.2309, 4.2309};
  DecoderConfig config = odd_config();
  config.vocab = 128;
  config.heads = config.kv_heads = 4;
  comm::run_ranks(4, [&](comm::Communicator& tensor) {
    UnitRun run(config, {.batch = 1, .seq_len = kRows},
                {.share = {.index = tensor.rank(), .count = tensor.size()}});
    run.join(tensor);
    const int head = run.model().head_unit();
    const core::ParamTable& table = run.model().table(head);
    const std::map<std::string, float*> weights =
        tensors_of(table, static_cast<float*>(run.weights(head)));
    std::fill_n(weights.at("model.norm.weight"), config.hidden, 1.0F);
    for (std::int64_t i = 0; i < 32 * config.hidden; ++i) {
      const bool first = i % config.hidden == 0;
      weights.at("lm_head.weight")[i] = first ? static_cast<float>(i / config.hidden % 8) : 0.0F;
    }
    for (int row = 0; row < kRows; ++row) {
      std::ranges::fill(run.labels_BT(), -100);
      run.labels_BT()[static_cast<std::size_t>(row)] = 2 * row;
      const double published = kPublished[static_cast<std::size_t>(row % 4)];
      std::fill_n(run.f32_input_of(head), run.hidden_elements(), 1.0F);
      EXPECT_NEAR(run.evaluate(), published, 1e-4) << row;
      EXPECT_NEAR(run.loss(1.0, Write::kAssign), published, 1e-4) << row;
    }
  });
}

TEST(TensorParallelParts, KeyHeadsHaveSeveralHoldersWhereRanksAreMore) {
  DecoderConfig config;
  config.heads = 8;
  config.kv_heads = 2;
  config.ffn = 10;
  config.vocab = 11;
  const TensorParts last = tensor_parts(config, {.index = 3, .count = 4});
  EXPECT_EQ(last.heads.first, 6);
  EXPECT_EQ(last.heads.count, 2);
  EXPECT_EQ(last.kv_heads.first, 1);
  EXPECT_EQ(last.kv_heads.holder.index, 1);
  EXPECT_EQ(last.kv_heads.holder.count, 2);
  EXPECT_EQ(last.ffn.first, 8);
  EXPECT_EQ(last.ffn.count, 2);
  EXPECT_EQ(last.vocab.first, 9);
  EXPECT_EQ(last.vocab.count, 2);
}

TEST(TensorParallelParts, WhatCannotBeCutIsRefusedByName) {
  DecoderConfig config;
  config.heads = 6;
  config.kv_heads = 2;
  const auto refusal = [&](int ranks) {
    try {
      tensor_parts(config, {.index = 0, .count = ranks});
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(4).find("num_attention_heads=6"), std::string::npos);
  EXPECT_NE(refusal(3).find("--model_parallel_size 1, 2, 6 "), std::string::npos);
  EXPECT_NE(refusal(3).find("num_key_value_heads=2"), std::string::npos);
  EXPECT_EQ(refusal(6), "");
}

}  // namespace
}  // namespace fm::model
