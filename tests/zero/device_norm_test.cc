// The norm of gradients in a device's memory: the host waits once, however many units there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "comm/staged/staged.h"
#include "tests/device/counted_waits.h"
#include "tests/zero/one_rank.h"
#include "zero/global_norm.h"

namespace fm::zero {
namespace {

using core::SumOrder;
using Floats = std::vector<float>;

constexpr core::Bytes kMemory = core::Bytes(std::int64_t{64} << 20);

// So many units of a rank that is alone.
struct Units {
  Units(int count, SumOrder order) {
    const std::int64_t sizes[] = {2500, 1000, 70'000, 1024, 3000, 5};
    for (const std::int64_t size : std::span(sizes).first(static_cast<std::size_t>(count))) {
      tables.emplace_back(std::vector<core::ParamEntry>{{.name = "w", .shape = {size}}},
                          core::NoDecay{});
    }
    LayoutInput input;
    input.rules.plan = core::plan_of(0, order);
    input.rules.order = order;
    for (const core::ParamTable& table : tables) input.tables.push_back(&table);
    layout = one_rank(input, *dp);
    std::int64_t numbers = 0;
    for (const FlatParam& each : layout.flat_params) {
      numbers += GlobalNorm::numbers_of(each.map, order);
      Floats& gradient =
          gradients.emplace_back(static_cast<std::size_t>(each.map.padded().count()), 0.0F);
      for (std::int64_t i = 0; i < each.table->elements().count(); ++i) {
        gradient[static_cast<std::size_t>(i)] = std::sin(static_cast<float>(i + each.unit));
      }
    }
    norm.emplace(layout, words, words, std::vector<GlobalNorm::Part>{{0, 0, count, numbers}});
  }

  std::unique_ptr<comm::Communicator> dp = comm::make_solo();
  comm::Words words = comm::Words(comm::make_solo());
  std::vector<core::ParamTable> tables;
  Layout layout;
  std::vector<Floats> gradients;
  std::optional<GlobalNorm> norm;
};

// Their gradients in a device's memory, and how often the host has waited since they were written.
struct OnDevice {
  explicit OnDevice(Units& of) : units(of) {}

  void write() {
    grads.begin_step();
    for (std::size_t unit = 0; unit < units.gradients.size(); ++unit) {
      const Floats& gradient = units.gradients[unit];
      work.queue->copy_in(gradient.data(), grads.slice(static_cast<int>(unit)).data(),
                          core::Bytes(static_cast<std::int64_t>(gradient.size() * sizeof(float))));
    }
    waits = 0;
  }

  Units& units;
  int waits = 0;
  std::unique_ptr<device::FakeDevice> device = device::device_that_counts(waits, kMemory);
  std::unique_ptr<comm::Communicator> dp = comm::staged(comm::make_solo(), *device);
  core::Ledger ledger;
  core::Work work = {.arena = {}, .threads = 1, .queue = &device->compute()};
  GradStore grads = GradStore(units.layout, core::RankMemory(ledger, device->memory()), *dp);
};

double on_this_cpu(Units& units) {
  const auto dp = comm::make_solo();
  core::Ledger ledger;
  GradStore grads(units.layout, ledger, *dp);
  grads.begin_step();
  for (std::size_t unit = 0; unit < units.gradients.size(); ++unit) {
    std::ranges::copy(units.gradients[unit], grads.slice(static_cast<int>(unit)).data());
  }
  return units.norm->squared({}, grads);
}

TEST(DeviceNorm, IsReadByOneWaitAndHasTheBitsOfThisCpu) {
  for (const SumOrder order : {SumOrder::kFast, SumOrder::kCanonical}) {
    for (const int count : {1, 3, 6}) {
      SCOPED_TRACE(testing::Message() << "order " << static_cast<int>(order) << ", " << count);
      Units units(count, order);
      OnDevice at(units);
      for (int step = 0; step < 2; ++step) {
        at.write();
        EXPECT_EQ(units.norm->squared(at.work, at.grads), on_this_cpu(units));
        EXPECT_EQ(at.waits, 1);
        for (Floats& gradient : units.gradients) gradient.front() += 1.0F;
      }
    }
  }
}

TEST(DeviceNorm, OfWhatWasKeptBeforeIsNotReadAgain) {
  for (const SumOrder order : {SumOrder::kFast, SumOrder::kCanonical}) {
    Units units(4, order);
    OnDevice at(units);
    at.write();
    units.norm->keep(at.work, at.grads, 1);
    EXPECT_EQ(at.waits, 1);
    const Floats others(units.gradients[1].size(), 9.0F);
    const core::Bytes bytes(static_cast<std::int64_t>(others.size() * sizeof(float)));
    at.work.queue->copy_in(others.data(), at.grads.slice(1).data(), bytes);
    EXPECT_EQ(units.norm->squared(at.work, at.grads), on_this_cpu(units));
    EXPECT_EQ(at.waits, 2);
  }
}

TEST(DeviceNorm, OfASliceThatChangedBehindItIsTheNewOne) {
  Units units(3, SumOrder::kFast);
  OnDevice at(units);
  at.write();
  units.norm->squared(at.work, at.grads);
  units.gradients[1][7] = 3.0F;
  const core::Bytes bytes(static_cast<std::int64_t>(units.gradients[1].size() * sizeof(float)));
  at.work.queue->copy_in(units.gradients[1].data(), at.grads.slice(1).data(), bytes);
  at.grads.changed(1);
  EXPECT_EQ(units.norm->squared(at.work, at.grads), on_this_cpu(units));
}

// Every unit has squares that could hide one.
TEST(DeviceNorm, FlagsOfAllUnitsAreReadByOneWaitMore) {
  for (const int count : {1, 3, 6}) {
    SCOPED_TRACE(count);
    Units units(count, SumOrder::kFast);
    for (Floats& gradient : units.gradients) gradient.assign(gradient.size(), 1.5F);
    OnDevice at(units);
    at.write();
    EXPECT_FALSE(at.grads.any_reaches(at.work, 2.0F));
    EXPECT_EQ(at.waits, 2);
    EXPECT_EQ(units.norm->squared(at.work, at.grads), on_this_cpu(units));
    EXPECT_EQ(at.waits, 2);
    units.gradients.back().back() = -2.0F;
    at.write();
    EXPECT_TRUE(at.grads.any_reaches(at.work, 2.0F));
    EXPECT_EQ(at.waits, 2);
  }
}

TEST(DeviceNorm, TakesTheMemoryThatThePlanCounts) {
  Units units(6, SumOrder::kFast);
  const OnDevice at(units);
  EXPECT_EQ(at.ledger.current(core::Account::kScratch), GradStore::answers_on_device(units.layout));
  // Sums of 3, 1, 69, 1, 3 and 1 blocks, and of 69 of one slice; the numbers of a block; six flags.
  EXPECT_EQ(GradStore::answers_on_device(units.layout),
            core::Bytes(8 * (78 + 69) + 4 * 1024 + 4 * 6));
}

}  // namespace
}  // namespace fm::zero
