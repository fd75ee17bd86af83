// Parameters that sleep (zero/param_store.h, zero/gather_from.h).
// Element i of flat parameter f is 1000 f + i: a wrong slice shows where it came from.

#include <gtest/gtest.h>

#include "comm/meet/world.h"
#include "core/element.h"
#include "tests/pipeline/built_programs.h"
#include "zero/param_store.h"

namespace fm::zero {
namespace {

using core::Elements;

// An embedding, a block and a head on one pipe rank, with ZeRO 3.
struct Sleepers {
  explicit Sleepers(int dp_size, int dp_rank, core::DType element = core::DType::kF32,
                    int slots = 1) {
    const auto add = [&](std::int64_t elements) {
      tables.emplace_back(std::vector<core::ParamEntry>{{.name = "w", .shape = {elements}}},
                          core::NoDecay{});
    };
    add(3000);
    add(5000);
    add(1500);
    LayoutInput input;
    input.units = pipeline::placement_of({.blocks = 1, .zero_stage = 3});
    input.rules.plan = core::plan_of(3, core::SumOrder::kFast);
    input.rules.element = element;
    input.rules.dp_size = dp_size;
    input.rules.tiers.params = core::Tier::kNvme;
    input.rules.awake = 2;
    input.rules.tier_slots = slots;
    for (const core::ParamTable& table : tables) input.tables.push_back(&table);
    layout = make_layout(input, 0, dp_rank);
  }
  std::vector<core::ParamTable> tables;
  Layout layout;
};

float value_of(int flat_param, std::int64_t element) {
  return static_cast<float>(1000 * flat_param + element);
}

void fill(const Layout& layout, SleepingState& params) {
  for (int flat_param = 0; flat_param < layout.count(); ++flat_param) {
    const FlatParam& at = layout.at(flat_param);
    const auto numbers = params.numbers(Role::kParams, flat_param);
    for (Elements first; first < at.owned.count; first += Elements(700)) {
      const Elements count = std::min(Elements(700), at.owned.count - first);
      float* const part = numbers->fetch(first, count);
      for (std::int64_t i = 0; i < count.count(); ++i) {
        part[i] = value_of(flat_param, (at.owned.first + first).count() + i);
      }
      numbers->drop(first, count, true);
    }
  }
}

TEST(SleepingParams, RanksGatherSlicesInTheOrderOfTheirWaits) {
  comm::run_ranks(2, [](comm::Communicator& dp) {
    const Sleepers made(2, dp.rank());
    const auto store = offload::in_host_memory(SleepPlan(made.layout, {Role::kParams}).total());
    core::Ledger ledger;
    ParamStore params(made.layout, ledger, dp);
    params.sleep_in(*store);
    fill(made.layout, *params.asleep());
    std::vector<std::vector<float>> slots(3);
    std::vector<comm::Pending> pending;
    for (int flat_param = 0; flat_param < 3; ++flat_param) {
      auto& slot = slots[static_cast<std::size_t>(flat_param)];
      slot.resize(static_cast<std::size_t>(made.layout.at(flat_param).map.padded().count()));
      pending.push_back(params.gather(flat_param, slot.data()));
    }
    for (const int flat_param : {2, 0, 1}) {
      pending[static_cast<std::size_t>(flat_param)].finish();
      const auto& slot = slots[static_cast<std::size_t>(flat_param)];
      for (std::size_t i = 0; i < slot.size(); ++i) {
        ASSERT_EQ(slot[i], value_of(flat_param, static_cast<std::int64_t>(i)));
      }
    }
  });
}

// A slice of 3 blocks in bf16 ends within a page, behind which lies another rank's.
TEST(SleepingParams, HalfAPageAtTheEndLeavesTheNextSliceAlone) {
  comm::run_ranks(2, [](comm::Communicator& dp) {
    const Sleepers made(2, dp.rank(), core::DType::kBF16);
    ASSERT_EQ(made.layout.at(1).map.slice().count(), 3 * 1024);
    const auto store = offload::in_host_memory(SleepPlan(made.layout, {Role::kParams}).total());
    core::Ledger ledger;
    ParamStore params(made.layout, ledger, dp);
    params.sleep_in(*store);
    fill(made.layout, *params.asleep());
    const auto padded = static_cast<std::size_t>(made.layout.at(1).map.padded().count());
    std::vector<core::Bf16> slot(padded + 1024, core::to_bf16(-1.0F));
    params.gather(1, slot.data()).finish();
    for (std::size_t i = 0; i < padded; ++i) {
      ASSERT_EQ(slot[i].bits, core::to_bf16(value_of(1, static_cast<std::int64_t>(i))).bits) << i;
    }
    for (std::size_t i = padded; i < slot.size(); ++i) {
      ASSERT_EQ(slot[i].bits, core::to_bf16(-1.0F).bits) << i;
    }
  });
}

TEST(SleepingParams, AnUpdateIsTheNewestWhenItsStepIsAccepted) {
  const Sleepers made(1, 0, core::DType::kF32, 2);
  const auto store = offload::in_host_memory(SleepPlan(made.layout, {Role::kParams}).total());
  core::Ledger ledger;
  const auto alone = comm::make_solo();
  ParamStore params(made.layout, ledger, *alone);
  params.sleep_in(*store);
  SleepingState& asleep = *params.asleep();
  fill(made.layout, asleep);
  const auto first_of = [&](int flat_param) {
    const auto numbers = asleep.numbers(Role::kParams, flat_param);
    const float first = *numbers->fetch(Elements(0), Elements(1));
    numbers->drop(Elements(0), Elements(1), false);
    return first;
  };
  const auto add_one = [&](int flat_param) {
    asleep.fetch(flat_param);
    asleep.wake(flat_param);
    *static_cast<float*>(params.slice(flat_param)) += 1.0F;
    asleep.store(flat_param);
  };
  for (const int flat_param : {0, 1, 2}) add_one(flat_param);  // 0 and 2 take one place in turn
  asleep.settle();
  EXPECT_EQ(first_of(1), value_of(1, 0));
  asleep.refuse();
  EXPECT_EQ(first_of(1), value_of(1, 0));
  for (const int flat_param : {0, 1, 2}) add_one(flat_param);
  asleep.settle();
  asleep.accept();
  for (const int flat_param : {0, 1, 2}) {
    EXPECT_EQ(first_of(flat_param), value_of(flat_param, 0) + 1.0F);
  }
}

TEST(SleepingParams, TheFirstOnesStayInMemory) {
  Sleepers made(1, 0);
  const Layout& all = made.layout;
  EXPECT_TRUE(all.at(0).sleeps && all.at(1).sleeps && all.at(2).sleeps);
  // A place for the embedding's and the head's slices, one for the block's, and nothing of each
  // flat parameter's own.
  EXPECT_EQ(all.charged(core::Account::kParams).count(), (3 + 5) * 1024 * 4);
}

}  // namespace
}  // namespace fm::zero
