// Numbers tell where they belong: those of flat parameter f in step s are 100 f + s.
#include "zero/sleeping_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/buffer.h"
#include "core/check.h"
#include "tests/pipeline/built_programs.h"

namespace fm::zero {
namespace {

using core::Elements;
using core::Tier;

// Five flat parameters of one block each, on one rank; a ring of two.
class SleepingStateTest : public testing::Test {
 protected:
  explicit SleepingStateTest(int slots = 1, int save_slots = 0) {
    for (int unit = 0; unit < 5; ++unit) {
      tables_.emplace_back(std::vector<core::ParamEntry>{{.name = "w", .shape = {1000}}},
                           core::NoDecay{});
    }
    LayoutInput input;
    input.units = pipeline::split(3, 1);
    input.rules.plan = core::plan_of(1, core::SumOrder::kFast);
    input.rules.moments = 1;
    input.rules.tiers = {.moments = Tier::kNvme};
    input.rules.awake = 2;
    input.rules.tier_slots = slots;
    input.rules.save_slots = save_slots;
    for (const core::ParamTable& table : tables_) input.tables.push_back(&table);
    layout_ = make_layout(input, 0, 0);
    for (int place = 0; place < 2; ++place) {
      memory_.push_back(
          core::make_f32(ledger_, core::Account::kOptimizer, core::kBlock, core::heap_pages()));
    }
    SleepPlan plan(layout_, {Role::kMoment});
    store_ = offload::in_host_memory(plan.total());
    state_.emplace(layout_, std::move(plan), *store_,
                   std::vector<RingArray>{
                       {.role = Role::kMoment, .places = {memory_[0].span(), memory_[1].span()}}});
  }

  float& first_of(int flat_param) {
    return memory_[static_cast<std::size_t>(layout_.ring_place(flat_param))].f32()[0];
  }
  void write(int flat_param, float value) {
    state_->fetch(flat_param);
    state_->wake(flat_param);
    first_of(flat_param) = value;
    state_->store(flat_param);
  }
  static float first_in(core::TensorSource& numbers) {
    const float out = *numbers.fetch(Elements(0), Elements(1));
    numbers.drop(Elements(0), Elements(1), false);
    return out;
  }
  float read(int flat_param) { return first_in(*state_->numbers(Role::kMoment, flat_param)); }
  core::Bytes place_of(int flat_param) const { return state_->newest(Role::kMoment, flat_param); }

  std::vector<core::ParamTable> tables_;
  Layout layout_;
  core::Ledger ledger_;
  std::vector<core::Buffer> memory_;
  std::unique_ptr<offload::SliceStore> store_;
  std::optional<SleepingState> state_;
};

TEST_F(SleepingStateTest, WhatWasNeverWrittenIsZero) {
  state_->fetch(3);
  state_->wake(3);
  EXPECT_EQ(first_of(3), 0.0F);
  state_->drop(3);
}

TEST_F(SleepingStateTest, FlatParametersTakeThePlacesInTurnAndComeBackAsTheyLeft) {
  for (int step = 1; step <= 3; ++step) {
    for (int flat_param = 0; flat_param < 5; ++flat_param) {
      state_->fetch(flat_param);
      state_->wake(flat_param);
      const auto number = static_cast<float>(100 * flat_param + step);
      EXPECT_EQ(first_of(flat_param), step == 1 ? 0.0F : number - 1.0F);
      first_of(flat_param) = number;
      state_->store(flat_param);
    }
  }
  EXPECT_EQ(read(4), 403.0F);
  EXPECT_EQ(store_->totals().written, core::Bytes(15 * 4096));
}

TEST_F(SleepingStateTest, WhatIsDroppedIsAsItWas) {
  write(1, 101.0F);
  state_->fetch(1);
  state_->wake(1);
  first_of(1) = 102.0F;
  state_->drop(1);
  EXPECT_EQ(read(1), 101.0F);
}

// A step that turns out to be skipped drops what is on its way.
TEST_F(SleepingStateTest, WhatIsArrivingCanBeDropped) {
  write(2, 201.0F);
  state_->fetch(2);
  state_->drop(2);
  state_->fetch(0);
  state_->wake(0);
  EXPECT_EQ(first_of(0), 0.0F);
}

TEST_F(SleepingStateTest, APlaceIsTakenByOneAtATime) {
  state_->fetch(0);
  EXPECT_THROW(state_->fetch(2), core::BugError);
  EXPECT_THROW(state_->wake(2), core::BugError);
  state_->wake(0);
  EXPECT_THROW(state_->fetch(4), core::BugError);
  state_->store(0);
  EXPECT_THROW(state_->store(0), core::BugError);
  state_->fetch(4);  // its bytes come when those of 0 have left
  state_->wake(4);
  EXPECT_EQ(first_of(4), 0.0F);
  state_->drop(4);
}

TEST_F(SleepingStateTest, NumbersAreWrittenWhereTheySleep) {
  const auto numbers = state_->numbers(Role::kMoment, 3);
  numbers->fetch(Elements(7), Elements(2))[1] = 3.5F;
  numbers->drop(Elements(7), Elements(2), true);
  state_->fetch(3);
  state_->wake(3);
  EXPECT_EQ((&first_of(3))[8], 3.5F);
  state_->drop(3);
}

class TwoSlots : public SleepingStateTest {
 protected:
  TwoSlots() : SleepingStateTest(2) {}
};

TEST_F(TwoSlots, AValueCountsWhenItIsAccepted) {
  write(1, 101.0F);
  write(2, 201.0F);
  EXPECT_EQ(read(1), 0.0F);
  state_->accept();
  EXPECT_EQ(read(1), 101.0F);
  write(1, 102.0F);
  state_->refuse();
  EXPECT_EQ(read(1), 101.0F);
  write(1, 103.0F);
  state_->accept();
  EXPECT_EQ(read(1), 103.0F);
  EXPECT_EQ(read(2), 201.0F);
}

// One slot for the update, or two, and one more for saves.
class SaveSlots : public SleepingStateTest, public testing::WithParamInterface<int> {
 protected:
  SaveSlots() : SleepingStateTest(GetParam(), 1) {}
  bool takes_back() const { return GetParam() == 2; }
  void step(int flat_param, float value) {
    write(flat_param, value);
    state_->accept();
  }
  offload::PartRoom room_{ledger_, offload::PartRoom::bytes_for(core::Bytes(4096))};
};
INSTANTIATE_TEST_SUITE_P(All, SaveSlots, testing::Values(1, 2),
                         [](const auto& at) { return at.param == 1 ? "InPlace" : "Beside"; });

TEST_P(SaveSlots, NoStepWritesWhatIsHeld) {
  step(1, 101.0F);
  step(2, 201.0F);
  for (int round = 0; round < 3; ++round) {
    const float before = read(1);
    const core::Bytes held_at = place_of(1);
    auto held = state_->held(Role::kMoment, 1, 0, room_);
    core::Bytes last = held_at;
    for (int at = 2; at < 6; ++at) {
      const float value = 101.0F + static_cast<float>(10 * round + at);
      step(1, value);
      EXPECT_NE(place_of(1), held_at);
      EXPECT_EQ(place_of(1) != last, takes_back() || at == 2) << at;
      last = place_of(1);
      EXPECT_EQ(read(1), value);
      EXPECT_EQ(first_in(*held), before);
    }
    held.reset();
    step(1, 1000.0F + static_cast<float>(round));
    EXPECT_EQ(place_of(1) != last, takes_back());
  }
  EXPECT_EQ(read(2), 201.0F);
}

// What waits for its acceptance is not what a save reads.
TEST_P(SaveSlots, AStepThatIsNotAcceptedLeavesWhatIsHeldTheNewest) {
  step(3, 301.0F);
  const auto held = state_->held(Role::kMoment, 3, 0, room_);
  write(3, 302.0F);
  state_->refuse();
  EXPECT_EQ(read(3), 301.0F);
  EXPECT_EQ(first_in(*held), 301.0F);
  step(3, 303.0F);
  EXPECT_EQ(read(3), 303.0F);
  EXPECT_EQ(first_in(*held), 301.0F);
}

TEST_P(SaveSlots, AValueThatIsStillLeavingIsHeldAsItWillBe) {
  step(4, 401.0F);  // nobody has waited for it
  const auto held = state_->held(Role::kMoment, 4, 0, room_);
  step(4, 402.0F);
  EXPECT_EQ(first_in(*held), 401.0F);
  EXPECT_TRUE(held->stands_still());
}

TEST_P(SaveSlots, OneSlotIsHeldAtATime) {
  step(1, 101.0F);
  const auto first = state_->held(Role::kMoment, 1, 0, room_);
  const auto same = state_->held(Role::kMoment, 1, 0, room_);
  step(1, 102.0F);
  EXPECT_THROW(state_->held(Role::kMoment, 1, 0, room_), core::BugError);
}

TEST_F(TwoSlots, AreNotHeldWhereSavesHaveNone) {
  offload::PartRoom room(ledger_, core::Bytes(3 * 4096));
  EXPECT_THROW(state_->held(Role::kMoment, 1, 0, room), core::BugError);
}

}  // namespace
}  // namespace fm::zero
