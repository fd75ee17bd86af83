// What the engine hands to the stores, once wrong: a size, an index or a rank that does not fit is
// a defect that is named, never memory that is written.
#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/zero/one_rank.h"
#include "zero/global_norm.h"
#include "zero/insert_prefetch.h"
#include "zero/insert_zero.h"
#include "zero/optimizer_shard.h"
#include "zero/reduce_tied.h"

namespace fm::zero {
namespace {

using core::BugError;
using core::Elements;

const core::ParamTable& table() {
  static const core::ParamTable made({{.name = "w", .shape = {5000}}}, {});
  return made;
}

const core::ParamTable& small_table() {
  static const core::ParamTable made({{.name = "s", .shape = {10}}}, {});
  return made;
}

struct Wanted {
  int zero_stage = 2;
  core::SumOrder order = core::SumOrder::kFast;
  int micros = 2;
  int dp_size = 1;
  const core::ParamTable* of = &table();
};

LayoutInput input_of(const Wanted& wanted) {
  LayoutInput input;
  input.units = pipeline::Placement({{.units = {0, 1}, .pipe_rank = 0}}, 1);
  input.rules.plan = core::plan_of(wanted.zero_stage, wanted.order);
  input.rules.order = wanted.order;
  input.rules.micros = wanted.micros;
  input.rules.dp_size = wanted.dp_size;
  input.tables = {wanted.of};
  return input;
}

Layout layout_of(const Wanted& wanted) { return make_layout(input_of(wanted), 0, 0); }

// The stores of a rank that is alone.
struct Stores {
  explicit Stores(const Wanted& wanted, bool waits_later = false)
      : Stores(layout_of(wanted), waits_later) {}
  explicit Stores(Layout of, bool waits_later = false)
      : layout(std::move(of)),
        params(layout, ledger, *dp),
        grads(layout, ledger, *dp, waits_later) {}

  void write(int micro) { grads.destination(work, 0, micro); }

  std::unique_ptr<comm::Communicator> dp = comm::make_solo();
  core::Ledger ledger;
  core::Work work;
  Layout layout;
  ParamStore params;
  GradStore grads;
};

TEST(LayoutSeams, AFlatParameterIsOneOfTheRanks) {
  LayoutInput input = input_of({});
  input.frozen = {&small_table()};
  const Layout layout = make_layout(input, 0, 0);
  EXPECT_EQ(layout.at(1).table, &small_table());
  EXPECT_THROW(layout.at(2), BugError);
  EXPECT_THROW(layout.at(-1), BugError);
  EXPECT_THROW(layout.check_trained(1), BugError);
}

TEST(LayoutSeams, ALayoutIsMadeForUnitsAndRanksThatAreThere) {
  LayoutInput input = input_of({});
  EXPECT_THROW(make_layout(input, 1, 0), BugError);
  EXPECT_THROW(make_layout(input, 0, 1), BugError);
  input.frozen = {nullptr, nullptr};
  EXPECT_THROW(make_layout(input, 0, 0), BugError);
  input.frozen.clear();
  input.tables.clear();
  EXPECT_THROW(make_layout(input, 0, 0), BugError);
}

TEST(LayoutSeams, BothEndsOfATiedMatrixHaveOneTable) {
  LayoutInput input = input_of({});
  input.units = pipeline::Placement({{.units = {0, 2}, .pipe_rank = 0}}, 1);
  input.units.tied = true;
  input.tables = {&table(), &small_table()};
  EXPECT_THROW(make_layout(input, 0, 0), BugError);
  input.tied = &small_table();
  EXPECT_THROW(make_layout(input, 0, 0), BugError);
  input.tied = &table();
  EXPECT_EQ(make_layout(input, 0, 0).tied.read, 2);
}

TEST(StoreSeams, AStoreWorksWithTheRanksOfItsLayout) {
  const auto solo = comm::make_solo();
  core::Ledger ledger;
  const Layout of_two = layout_of({.dp_size = 2});
  EXPECT_THROW(ParamStore(of_two, ledger, *solo), BugError);
  EXPECT_THROW(GradStore(of_two, ledger, *solo), BugError);
  comm::Words words(comm::make_solo());
  EXPECT_THROW(GlobalNorm(of_two, words, words, {}), BugError);
  EXPECT_THROW(OptimizerShard(of_two, ledger, {}, {.data = solo.get()}), BugError);
}

TEST(GradStoreSeams, AGradientIsOfAMicroBatchOfTheStep) {
  Stores at(Wanted{});
  EXPECT_THROW(at.grads.destination(at.work, 0, 2), BugError);
  EXPECT_THROW(at.grads.destination(at.work, 0, -1), BugError);
  EXPECT_THROW(at.grads.destination(at.work, 1, 0), BugError);
}

TEST(GradStoreSeams, AReductionIsOneOfThePlanAndComesAfterTheGradient) {
  Stores each(Wanted{});
  EXPECT_THROW(each.grads.reduce(each.work, 0, 0), BugError);  // not written
  each.write(0);
  EXPECT_THROW(each.grads.reduce(each.work, 0, -1), BugError);
  each.grads.reduce(each.work, 0, 0);
  EXPECT_THROW(each.grads.reduce(each.work, 0, 0), BugError);  // reduced already
  Stores once(Wanted{.zero_stage = 1});
  once.write(0);
  EXPECT_THROW(once.grads.reduce(once.work, 0, 0), BugError);
  EXPECT_THROW(once.grads.reduce(once.work, 1, -1), BugError);
}

TEST(GradStoreSeams, SumsAreReadWhenNothingIsUnderWay) {
  Stores at(Wanted{}, true);
  at.write(0);
  at.grads.reduce(at.work, 0, 0);
  EXPECT_THROW(at.grads.squared({}, 0), BugError);
  at.grads.settle(at.work);
  EXPECT_EQ(at.grads.squared({}, 0), 0.0);
  EXPECT_THROW(at.grads.slice(1), BugError);
}

TEST(GradStoreSeams, SlotsLieInTheBuffersThatTheLayoutLists) {
  Layout layout = layout_of({});
  for (Reservation& each : layout.reservations) {
    if (each.role == Role::kGradientSlots) each.count = each.share = Elements(1024);
  }
  EXPECT_THROW(Stores{layout}, BugError);
}

TEST(GradStoreSeams, ASumIsCarriedToALevelThatIsThere) {
  Layout layout = layout_of({.order = core::SumOrder::kCanonical});
  layout.counter_levels = 0;
  Stores at(layout);
  at.write(0);
  at.grads.reduce(at.work, 0, 0);
  at.write(1);
  EXPECT_THROW(at.grads.reduce(at.work, 0, 1), BugError);
}

TEST(GradStoreSeams, GapsAreThoseOfTheTableThatTheMapCuts) {
  std::vector<float> whole(1024);
  const FlatParam flat_param{.table = &small_table(), .map = {Elements(1024), 1}};
  EXPECT_THROW(clear_gaps({}, flat_param, whole.data()), BugError);
}

TEST(ParamStoreSeams, WhatIsWholeIsNeitherGatheredNorPublished) {
  Stores whole(Wanted{.zero_stage = 0});
  std::vector<float> slot(8192);
  EXPECT_THROW(whole.params.gather(0, slot.data()), BugError);
  EXPECT_THROW(whole.params.publish(0), BugError);
  Stores cut(Wanted{.zero_stage = 3});
  EXPECT_THROW(cut.params.publish(0), BugError);
  EXPECT_THROW(cut.params.gather(0, nullptr), BugError);
  EXPECT_THROW(cut.params.gather(0, reinterpret_cast<std::byte*>(slot.data()) + 2), BugError);
  EXPECT_THROW(cut.params.gather(1, slot.data()), BugError);
  cut.params.gather(0, slot.data()).finish();
}

TEST(OptimizerSeams, AMomentIsOneOfTheRules) {
  const Layout layout = layout_of({});
  core::Ledger ledger;
  OptimizerShard shard(layout, ledger, {});
  EXPECT_NE(shard.kept(0, 1), nullptr);
  EXPECT_THROW(shard.kept(0, 2), BugError);
  EXPECT_THROW(shard.kept(1, 0), BugError);
  EXPECT_THROW(shard.master(1), BugError);
}

TEST(OptimizerSeams, NothingIsRoundedOrUndoneThatTheLayoutDoesNotKeep) {
  Stores at(Wanted{});
  OptimizerShard shard(at.layout, at.ledger, {});
  EXPECT_THROW(shard.round_master({}, 0, at.params), BugError);
  EXPECT_THROW(shard.set_aside(at.work, 0, at.params, at.grads), BugError);
  EXPECT_THROW(shard.undo(at.work, 0, at.params, at.grads), BugError);
}

TEST(OptimizerSeams, AnUpdateTakesAGradientOfItsSize) {
  Stores at(Wanted{});
  Stores other(Wanted{.of = &small_table()});
  OptimizerShard shard(at.layout, at.ledger, {});
  EXPECT_THROW(shard.update(at.work, 0, {}, at.params, other.grads), BugError);
  EXPECT_THROW(shard.update(at.work, 1, {}, at.params, at.grads), BugError);
  shard.update(at.work, 0, {}, at.params, at.grads);
}

TEST(OptimizerSeams, ARuleThatMovesWholeTensorsNeedsTheOtherRanks) {
  const Layout of_two = layout_of({.dp_size = 2});
  core::Ledger ledger;
  EXPECT_THROW(OptimizerShard(of_two, ledger, {.rule = &optim::kLamb}), BugError);
}

TEST(OptimizerSeams, AMatrixThatMovesAsAWholeIsHereAsAWhole) {
  const core::ParamTable half({{.name = "m", .shape = {8, 8}, .split_dim = 0}}, {},
                              {.index = 0, .count = 2});
  LayoutInput input = input_of({.of = &half});
  input.rules.matrices = optim::kMuon.by_matrix;
  Stores at(make_layout(input, 0, 0));
  OptimizerShard shard(at.layout, at.ledger, {.rule = &optim::kMuon});
  EXPECT_THROW(shard.update(at.work, 0, {}, at.params, at.grads), BugError);
}

TEST(TiedSeams, GradientsAreAddedWhereATiedMatrixEnds) {
  Stores at(Wanted{});
  TiedReduction tied(at.layout, at.ledger, *at.dp);
  EXPECT_THROW(tied.run({}, at.grads), BugError);
}

TEST(NormSeams, PartsListTheNumbersOfTheirRank) {
  comm::Words words(comm::make_solo());
  const Layout layout = layout_of({});
  EXPECT_THROW(GlobalNorm(layout, words, words, {{0, 0, 1, 2}}), BugError);
  GlobalNorm norm(layout, words, words, {{0, 0, 1, 1}});
  const std::vector<double> two(2);
  EXPECT_THROW(norm.take_before(two), BugError);
}

TEST(NormSeams, TensorsAreSquaredByWholeBlocks) {
  const std::vector<float> values(5120);
  const std::span all(values);
  core::Ledger ledger;
  BlockSquares squares(ledger, blocks_of_tensors(table(), std::ssize(values)));
  const auto norms = [&](Elements first, std::span<const float> part) {
    return tensor_norms({}, table(), first, part, squares, {});
  };
  EXPECT_THROW(norms(Elements(10), all), BugError);
  EXPECT_THROW(norms(Elements(0), all.first(100)), BugError);
  EXPECT_THROW(norms(Elements(0), all.first(1024)), BugError);  // a part, alone
  EXPECT_EQ(norms(Elements(0), all), std::vector<double>{0.0});
}

TEST(PassSeams, PassesAreOfThePlacementAtHand) {
  const pipeline::Placement units = pipeline::split_evenly(1, {}, false);
  const std::vector<Elements> of_two(2);
  EXPECT_THROW(insert_prefetch({}, units, of_two, Elements(0)), BugError);
  EXPECT_THROW(insert_zero({}, core::plan_of(2, core::SumOrder::kFast), units, 1), BugError);
}

}  // namespace
}  // namespace fm::zero
