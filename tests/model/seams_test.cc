// What the engine hands to units, once wrong: memory, ranks or sizes that do not fit are defects
// that are named.
#include <gtest/gtest.h>

#include "core/check.h"
#include "model/attention/context_attention.h"
#include "model/attention/head_exchange.h"
#include "model/attention/rope_frequencies.h"
#include "model/units/carver.h"
#include "model/units/tensor_parallel.h"
#include "tests/model/unit_run.h"

namespace fm::model {
namespace {

using core::BugError;

constexpr core::BatchShape kShape{.batch = 1, .seq_len = 4};

DecoderConfig tied_config() {
  DecoderConfig config = odd_config();
  config.tied = true;
  return config;
}

// A call of one unit of a small model with all that it needs; tests take something away.
struct Call {
  explicit Call(int unit, const DecoderConfig& config = odd_config())
      : run(config, kShape), number(unit), output(run.hidden()) {
    const UnitSizes sizes = run.model().sizes(unit, kShape, work.threads);
    parked = run.memory(sizes.parked.count());
    scratch = run.memory(sizes.scratch.count());
    work.arena = core::Arena(scratch.span());
    weights = {.own = run.weights(unit), .tied = config.tied ? run.weights(0) : nullptr};
    saved = {run.input_of(unit), run.kept(unit).data(), parked.data()};
    gradients = {.own = run.gradients(unit), .tied = run.tied_gradients()};
    input = run.input();
  }

  UnitCall call() { return {weights, input, saved, work, {}}; }
  const Unit& unit() const { return *run.model().units[static_cast<std::size_t>(number)]; }
  void forward() { unit().forward(call(), output.data()); }
  void backward_input() { unit().backward_input(call(), run.input_of(2), output.data()); }
  void backward_weight() { unit().backward_weight(call(), gradients, Write::kAssign); }
  void loss() {
    double sum = 0.0;
    run.model().head->loss(call(), run.input_of(number), 1.0, gradients, Write::kAssign, &sum);
  }

  UnitRun run;
  int number;
  core::Buffer output, parked, scratch;
  core::Work work;
  Weights weights;
  Saved saved;
  Gradients gradients;
  UnitInput input;
};

TEST(BlockSeams, ABlockReadsWeightsAndItsInputAndKeepsWhatBackwardNeeds) {
  EXPECT_NO_THROW(Call(1).forward());
  Call at(1);
  at.weights.own = nullptr;
  EXPECT_THROW(at.forward(), BugError);
  Call without_input(1);
  without_input.saved.input_BTD = nullptr;
  EXPECT_THROW(without_input.forward(), BugError);
  Call keeps_nothing(1);
  keeps_nothing.saved.kept = nullptr;
  EXPECT_THROW(keeps_nothing.forward(), BugError);
}

TEST(BlockSeams, BackwardParksAndWritesGradientsSomewhere) {
  Call at(1);
  at.forward();
  EXPECT_NO_THROW(at.backward_input());
  EXPECT_NO_THROW(at.backward_weight());
  EXPECT_THROW(at.unit().backward_input(at.call(), at.output.data(), at.output.data()), BugError);
  at.gradients.own = nullptr;
  EXPECT_THROW(at.backward_weight(), BugError);
  at.saved.parked = nullptr;
  EXPECT_THROW(at.backward_input(), BugError);
  EXPECT_THROW(at.backward_weight(), BugError);
}

TEST(BlockSeams, MemoryIsCutIntoArraysFrom64BytesOn) {
  alignas(64) std::byte memory[128];
  EXPECT_EQ(Carver(memory).take<float>(1), reinterpret_cast<float*>(memory));
  EXPECT_THROW(Carver(memory + 4), BugError);
}

TEST(BlockSeams, NewTokensFitTheirCacheAndTheCall) {
  Call at(1);
  const std::int64_t width = at.unit().cache_width();
  core::Buffer cache = at.run.memory(8 * width);
  core::Buffer scratch =
      at.run.memory(at.unit().decode_sizes(4, 8, at.work.threads).scratch.count());
  at.work.arena = core::Arena(scratch.span());
  const auto decode = [&](const CachedSequence& sequence) {
    at.unit().decode(at.call(), {&sequence, 1}, at.output.data());
  };
  EXPECT_NO_THROW(decode({.count = 4, .position = 4, .capacity = 8, .cache = cache.data()}));
  EXPECT_THROW(decode({.count = 4, .position = 5, .capacity = 8, .cache = cache.data()}), BugError);
  EXPECT_THROW(decode({.count = 5, .position = 0, .capacity = 8, .cache = cache.data()}), BugError);
  EXPECT_THROW(decode({.count = 4, .position = 0, .capacity = 8, .cache = nullptr}), BugError);
}

TEST(EmbeddingSeams, TokensAreThereAndWithinTheLearnedPositions) {
  EXPECT_NO_THROW(Call(0).forward());
  Call at(0);
  at.input.tokens_BT = nullptr;
  EXPECT_THROW(at.forward(), BugError);
  at.saved.parked = nullptr;
  EXPECT_THROW(at.backward_input(), BugError);
  DecoderConfig config = odd_config();
  config.names.positions = "embed_positions";
  config.max_positions = 4;
  EXPECT_NO_THROW(Call(0, config).forward());
  config.max_positions = 3;
  EXPECT_THROW(Call(0, config).forward(), BugError);
}

TEST(HeadSeams, TheHeadReadsLabelsAndItsMatrixAndWritesItsGradient) {
  EXPECT_NO_THROW(Call(3).loss());
  EXPECT_NO_THROW(Call(3, tied_config()).loss());
  Call at(3);
  at.gradients.own = nullptr;
  EXPECT_THROW(at.loss(), BugError);
  at.input.labels_BT = nullptr;
  EXPECT_THROW(at.loss(), BugError);
  Call tied(3, tied_config());
  tied.gradients.tied = nullptr;
  EXPECT_THROW(tied.loss(), BugError);
  Call without_matrix(3, tied_config());
  without_matrix.weights.tied = nullptr;
  EXPECT_THROW(without_matrix.loss(), BugError);
}

TEST(PeerSeams, RowsAreSplitForTheRanksAtHand) {
  core::Work work;
  const kernels::AttentionShape shape{.batch = {.batch = 1, .seq_len = 4, .split = {.ulysses = 2}},
                                      .heads = 2,
                                      .kv_heads = 2,
                                      .head_dim = 16};
  EXPECT_THROW(context_forward<float>(shape, {}, {}, work), BugError);
  EXPECT_THROW(context_backward<float>(shape, {}, {}, work), BugError);
  const auto solo = comm::make_solo();
  const HeadExchange exchange(*solo, work);
  const HeadLists of_two = deal_heads(2, 2, 2).q;
  EXPECT_THROW(exchange.to_heads<float>({}, of_two, nullptr, nullptr), BugError);
}

TEST(PeerSeams, PartsOfTokensAreThoseOfAllRanks) {
  const auto solo = comm::make_solo();
  const TokenPart half{.first = 0, .count = 2, .all = 4};
  float rows[4] = {};
  EXPECT_THROW(gather_tokens(core::Work(), solo.get(), half, 1, rows), BugError);
  EXPECT_THROW(sum_tokens(core::Work(), nullptr, half, 1, rows), BugError);
}

TEST(RopeSeams, ATableHasPositionsAndTurns) {
  RopeTables tables({.type = RopeConfig::Type::kDefault}, 16);
  EXPECT_THROW(tables.get(core::Work(), 0), BugError);
  RopeTables none({.type = RopeConfig::Type::kNone}, 16);
  EXPECT_THROW(none.get(core::Work(), 4), BugError);
}

}  // namespace
}  // namespace fm::model
