// Updates on the host beside the fake device, against updates where everything lies in memory.
#include "zero/host_updates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "comm/meet/world.h"
#include "comm/staged/staged.h"
#include "core/check.h"
#include "core/element.h"
#include "device/fake/fake_device.h"
#include "tests/zero/one_rank.h"

namespace fm::zero {
namespace {

using core::DType;
using core::Elements;
using Floats = std::vector<float>;

constexpr int kUnits = 4;
constexpr int kSteps = 3;

float param_of(int unit, std::int64_t i) {
  return std::sin(static_cast<float>(i) + static_cast<float>(unit));
}
float grad_of(int unit, std::int64_t i, int step) {
  return std::cos(static_cast<float>(3 * i + step) * static_cast<float>(unit + 1));
}

// Units of several parts (zero/optimizer_shard.cc) and of one, with and without decay.
std::vector<core::ParamTable> tables() {
  std::vector<core::ParamTable> out;
  for (const std::int64_t size : {150'000, 3'000, 90'000, 70'000}) {
    const std::vector<core::ParamEntry> entries = {
        {.name = "matrix", .shape = {size}},
        {.name = "norm", .shape = {size / 2}, .kind = core::ParamKind::kNorm}};
    out.emplace_back(entries, core::NoDecay{.norm = true});
  }
  return out;
}

struct Case {
  DType element = DType::kF32;
  double host_share = 1.0;
  std::vector<core::ParamTable> units = tables();
  optim::OptimizerOptions options = {.weight_decay = 0.1};

  Layout layout(core::Tier tier, comm::Communicator& dp) const {
    LayoutInput input;
    input.rules.plan = core::plan_of(1, core::SumOrder::kFast);
    input.rules.element = element;
    input.rules.tiers.moments = input.rules.tiers.masters = tier;
    input.rules.beside_device = tier == core::Tier::kHost;
    input.rules.host_share = host_share;
    for (const core::ParamTable& table : units) input.tables.push_back(&table);
    return one_rank(input, dp);
  }
  static optim::UpdateScalars scalars(int step) {
    return {.lr = 1e-2, .step = step, .grad_scale = 0.5F};
  }
};

// What is left of a unit: the parameters as they are read, then the state.
struct Left {
  std::vector<std::byte> params;
  Floats master, first, second;
  bool operator==(const Left&) const = default;
};

Floats floats_at(const float* data, Elements count) {
  return data == nullptr ? Floats() : Floats(data, data + count.count());
}

Floats gradient(const FlatParam& at, int step) {
  Floats out(static_cast<std::size_t>(at.grads.count.count()));
  for (std::int64_t i = 0; i < at.table->elements().count(); ++i) {
    out[static_cast<std::size_t>(i)] = grad_of(at.unit, i, step);
  }
  return out;
}

void fill(const FlatParam& at, float* values) {
  for (std::int64_t i = 0; i < at.table->elements().count(); ++i) {
    values[i] = param_of(at.unit, i);
  }
}

std::vector<Left> in_memory(const Case& at) {
  std::vector<Left> out;
  const auto dp = comm::make_solo();
  core::Ledger ledger;
  const Layout layout = at.layout(core::Tier::kDevice, *dp);
  ParamStore params(layout, ledger, *dp);
  GradStore grads(layout, ledger, *dp);
  OptimizerShard shard(layout, core::RankMemory(ledger), at.options);
  core::Work work;
  for (int unit = 0; unit < kUnits; ++unit) {
    const bool narrow = layout.has_master();
    fill(layout.at(unit), narrow ? shard.master(unit) : static_cast<float*>(params.slice(unit)));
    if (narrow) shard.round_master(work, unit, params);
    for (int step = 1; step <= kSteps; ++step) {
      std::ranges::copy(gradient(layout.at(unit), step), grads.slice(unit).data());
      shard.update(work, unit, Case::scalars(step), params, grads);
    }
    const Elements count = layout.at(unit).optimizer.count;
    const auto* const bytes = static_cast<const std::byte*>(params.slice(unit));
    const float* const master =
        narrow ? shard.master(unit) : static_cast<const float*>(params.slice(unit));
    out.push_back({{bytes, bytes + core::bytes_of(count, at.element).count()},
                   floats_at(master, count),
                   floats_at(shard.slice(unit, 0), count),
                   floats_at(shard.slice(unit, 1), count)});
  }
  return out;
}

// All units step by step, one behind the other, without a wait of the host between them.
std::vector<Left> beside_a_device(const Case& at, std::uint64_t seed) {
  device::FakeDevice device(seed, core::Bytes(std::int64_t{64} << 20));
  const auto dp = comm::staged(comm::make_solo(), device);
  core::Ledger ledger, beside;
  const HostMemory host{beside, core::heap(), device.host_memory()};
  const StateMemory memory({ledger, device.memory()}, &host);
  const Layout layout = at.layout(core::Tier::kHost, *dp);
  ParamStore params(layout, memory, *dp);
  GradStore grads(layout, memory, *dp);
  OptimizerShard shard(layout, memory, at.options);
  HostUpdates updates(layout, memory, device, shard, 3);
  core::Queue& compute = device.compute();
  std::vector<Floats> given;  // until the end
  for (int unit = 0; unit < kUnits; ++unit) {
    fill(layout.at(unit), shard.master(unit));
    updates.refresh(unit, params);
  }
  for (int step = 1; step <= kSteps; ++step) {
    for (int unit = 0; unit < kUnits; ++unit) {
      updates.arrive(unit);  // whose gradient was read, too
      given.push_back(gradient(layout.at(unit), step));
      const core::Bytes bytes(static_cast<std::int64_t>(4 * given.back().size()));
      compute.copy_in(given.back().data(), grads.slice(unit).data(), bytes);
    }
    for (int unit = 0; unit < kUnits; ++unit) {
      updates.fetch(unit, grads);
      updates.update(unit, Case::scalars(step), params);
      updates.store(unit, params);
    }
  }
  std::vector<Left> out(kUnits);
  for (int unit = 0; unit < kUnits; ++unit) {
    Left& left = out[static_cast<std::size_t>(unit)];
    const core::Bytes bytes = core::bytes_of(layout.at(unit).optimizer.count, at.element);
    left.params.resize(static_cast<std::size_t>(bytes.count()));
    updates.arrive(unit);
    compute.copy_out(params.slice(unit), left.params.data(), bytes);
  }
  compute.finish();
  updates.finish();
  for (int unit = 0; unit < kUnits; ++unit) {
    const Elements count = layout.at(unit).optimizer.count;
    Left& left = out[static_cast<std::size_t>(unit)];
    left.master = floats_at(shard.master(unit), count);
    left.first = floats_at(shard.slice(unit, 0), count);
    left.second = floats_at(shard.slice(unit, 1), count);
  }
  EXPECT_EQ(beside.peak_total(), layout.host_bytes());
  return out;
}

TEST(HostUpdates, LeaveTheBitsOfUpdatesInMemory) {
  for (const DType element : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Case at{.element = element};
    const std::vector<Left> expected = in_memory(at);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      EXPECT_TRUE(beside_a_device(at, seed) == expected)
          << core::name_of(element) << ", seed " << seed;
    }
  }
}

TEST(HostUpdates, AnotherUnitThanThoseOnTheHostIsADefect) {
  device::FakeDevice device(1, core::Bytes(std::int64_t{64} << 20));
  const auto dp = comm::staged(comm::make_solo(), device);
  core::Ledger ledger, beside;
  const HostMemory host{beside, core::heap(), device.host_memory()};
  const StateMemory memory({ledger, device.memory()}, &host);
  const Case at{.host_share = 0.5};
  const Layout layout = at.layout(core::Tier::kHost, *dp);
  ParamStore params(layout, memory, *dp);
  GradStore grads(layout, memory, *dp);
  OptimizerShard shard(layout, memory, at.options);
  HostUpdates updates(layout, memory, device, shard, 1);
  EXPECT_FALSE(updates.has(0));
  EXPECT_TRUE(updates.has(kUnits - 1));
  EXPECT_THROW(updates.fetch(0, grads), core::BugError);
  core::Work work{.arena = {}, .queue = &device.compute()};
  EXPECT_THROW(shard.update(work, kUnits - 1, Case::scalars(1), params, grads), core::BugError);
  EXPECT_THROW(shard.update_on_host(1, {0}, Case::scalars(1)), core::BugError);
  // A place is taken until its unit is stored.
  for (const int unit : {2, 3}) updates.fetch(unit, grads);
  EXPECT_THROW(updates.fetch(2, grads), core::BugError);
}

// Of a device that has failed, record() throws.
class FailingQueue : public device::FakeQueue {
 public:
  FailingQueue(const device::TwoViews& views, core::MemorySource& memory, const bool& failed)
      : FakeQueue(views, memory,
                  std::make_unique<device::EarlyOrLate>(device::EarlyOrLate::When::kEarly)),
        failed_(failed) {}

  core::EventPtr record() override {
    FM_MACHINE_CHECK(!failed_, core::ExitCode::kDeviceFailed, "the device has failed");
    return FakeQueue::record();
  }

 private:
  const bool& failed_;
};

TEST(HostUpdates, EndBesideADeviceThatHasFailed) {
  bool failed = false;
  device::FakeDevice device(
      [&](device::FakeDevice::Name, const device::TwoViews& views, core::MemorySource& memory) {
        return std::make_unique<FailingQueue>(views, memory, failed);
      },
      core::Bytes(std::int64_t{64} << 20));
  const auto dp = comm::staged(comm::make_solo(), device);
  core::Ledger ledger, beside;
  const HostMemory host{beside, core::heap(), device.host_memory()};
  const StateMemory memory({ledger, device.memory()}, &host);
  const Case at{};
  const Layout layout = at.layout(core::Tier::kHost, *dp);
  OptimizerShard shard(layout, memory, at.options);
  auto updates = std::make_unique<HostUpdates>(layout, memory, device, shard, 1);
  failed = true;
  EXPECT_THROW(updates->finish(), core::MachineError);
  updates.reset();
  failed = false;  // for the memory that goes back
}

}  // namespace
}  // namespace fm::zero
