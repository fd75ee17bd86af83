// Gradients that take the places of a ring in turn: what leaves a place comes back, and the norm is
// that of gradients which stay.
#include "zero/resting_gradients.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "comm/meet/world.h"
#include "tests/zero/one_rank.h"
#include "zero/global_norm.h"

namespace fm::zero {
namespace {

constexpr int kUnits = 3;
constexpr std::array<std::int64_t, kUnits> kElements = {2500, 1000, 3000};

const core::ParamTable& table_of(int unit) {
  static const std::array<core::ParamTable, kUnits> kTables = [] {
    std::array<core::ParamTable, kUnits> out;
    for (std::size_t i = 0; i < kUnits; ++i) {
      out[i] = core::ParamTable({{.name = "w", .shape = {kElements[i]}}}, {});
    }
    return out;
  }();
  return kTables[static_cast<std::size_t>(unit)];
}

LayoutInput input_of(int zero_stage, core::SumOrder order) {
  LayoutInput input;
  input.rules.plan = core::plan_of(zero_stage, order);
  input.rules.order = order;
  for (int unit = 0; unit < kUnits; ++unit) input.tables.push_back(&table_of(unit));
  return input;
}

LayoutInput resting(LayoutInput input) {
  input.rules.tiers.moments = input.rules.tiers.grads = core::Tier::kNvme;
  input.rules.awake = 2;
  input.rules.gradients_in_ring = true;
  return input;
}

float value(int unit, std::int64_t at) { return std::sin(static_cast<float>(100 * unit + at)); }

void write(GradStore& grads, const Layout& layout, int unit) {
  const GradStore::Destination to = grads.destination({}, unit, 0);
  for (std::int64_t at = 0; at < kElements[static_cast<std::size_t>(unit)]; ++at) {
    to.whole[at] = value(unit, at);
  }
  grads.reduce({}, unit, layout.plan.reduce_every_micro ? 0 : -1);
}

double norm_of(const Layout& layout, GradStore& grads, comm::Communicator& dp,
               const std::function<void(GlobalNorm&)>& step) {
  comm::Words words = words_of(dp);
  comm::Words pipe = alone(dp);
  std::int64_t count = 0;
  for (const FlatParam& each : layout.flat_params) {
    count += GlobalNorm::numbers_of(each.map, layout.order);
  }
  GlobalNorm norm(layout, words, pipe, {{0, 0, kUnits, count}});
  grads.begin_step();
  step(norm);
  return norm.squared({}, grads);
}

TEST(RestingGradients, HaveAPlaceInTurn) {
  comm::run_ranks(1, [](comm::Communicator& dp) {
    core::Ledger ledger;
    const Layout layout = one_rank(resting(input_of(2, core::SumOrder::kFast)), dp);
    GradStore grads(layout, ledger, dp);
    EXPECT_EQ(grads.kept(0).data(), grads.kept(2).data());
    EXPECT_NE(grads.kept(0).data(), grads.kept(1).data());
    EXPECT_EQ(std::ssize(grads.kept(1)), 1024);
    EXPECT_EQ(layout.charged(core::Account::kGrads), core::Bytes(2 * 4 * 3072));
  });
}

TEST(RestingGradients, ComeBackAndCountInTheNorm) {
  for (const int zero_stage : {1, 2, 3}) {
    for (const core::SumOrder order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
      comm::run_ranks(1, [&](comm::Communicator& dp) {
        core::Ledger ledger;
        const Layout whole = one_rank(input_of(zero_stage, order), dp);
        GradStore stays(whole, ledger, dp);
        const double expected = norm_of(whole, stays, dp, [&](GlobalNorm&) {
          for (int unit = 0; unit < kUnits; ++unit) write(stays, whole, unit);
        });

        const Layout layout = one_rank(resting(input_of(zero_stage, order)), dp);
        GradStore grads(layout, ledger, dp);
        const SleepPlan plan(layout, {Role::kGrads});
        const auto store = offload::in_host_memory(plan.total());
        RestingGradients rest(layout, plan, *store, grads);
        const double squared = norm_of(layout, grads, dp, [&](GlobalNorm& norm) {
          for (int unit = 0; unit < kUnits; ++unit) {
            rest.claim(unit);
            write(grads, layout, unit);
            norm.keep({}, grads, unit);
            rest.rest(unit);
          }
        });
        EXPECT_EQ(squared, expected) << zero_stage;
        for (int unit = 0; unit < kUnits; ++unit) {
          rest.fetch(unit);
          EXPECT_TRUE(std::isnan(grads.slice(unit)[0]));
          rest.wake(unit);
          const auto last = static_cast<std::size_t>(kElements[static_cast<std::size_t>(unit)]);
          EXPECT_EQ(grads.slice(unit)[last - 1],
                    value(unit, kElements[static_cast<std::size_t>(unit)] - 1));
          EXPECT_TRUE(last == grads.slice(unit).size() || grads.slice(unit)[last] == 0.0F);
        }
      });
    }
  }
}

}  // namespace
}  // namespace fm::zero
