// Slices on their way from a store to the fake device. Element i of slice s is 10,000 s + i.
#include "zero/slices_up.h"

#include <gtest/gtest.h>

#include "comm/meet/world.h"
#include "comm/staged/staged.h"
#include "core/check.h"
#include "device/fake/fake_device.h"
#include "tests/device/gate.h"

namespace fm::zero {
namespace {

using core::Bytes;
using core::Elements;
using Floats = std::vector<float>;

constexpr int kSlices = 5;
constexpr Elements kEach(1024 + 512);  // a page and a half
constexpr Bytes kPlace(2 * offload::kPage.count());

float value_of(int slice, std::int64_t element) {
  return static_cast<float>(10'000 * slice + element);
}

struct Case {
  Case(std::uint64_t seed, int places, std::unique_ptr<comm::Communicator> host = comm::make_solo())
      : device(seed, Bytes(std::int64_t{64} << 20)),
        ranks(comm::staged(std::move(host), device)),
        store(offload::in_host_memory(kPlace * kSlices)),
        whole(ledger, core::Account::kSlots, kPlace * kSlices, device.memory()) {
    Floats values(static_cast<std::size_t>(kPlace.count()) / sizeof(float));
    for (int slice = 0; slice < kSlices; ++slice) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = value_of(slice, static_cast<std::int64_t>(i));
      }
      store->write(kPlace * slice, std::as_bytes(std::span(values))).wait();
    }
    std::vector<core::Buffer> memory;
    for (int i = 0; i < places; ++i) {
      memory.emplace_back(ledger, core::Account::kParams, kPlace, device.host_memory());
    }
    up.emplace(SlicesUp::Ends{device, *store, *ranks}, std::move(memory));
  }
  void* slot(int slice) { return whole.span().data() + (kPlace * slice).count(); }
  comm::Pending gather(int slice) {
    return up->gather(kPlace * slice, {slot(slice), kEach, core::DType::kF32});
  }
  // Behind compute(), as kernels read.
  Floats read(const void* place) {
    Floats out(static_cast<std::size_t>(kEach.count()));
    device.compute().copy_out(place, out.data(), core::bytes_of(kEach, core::DType::kF32));
    device.compute().finish();
    return out;
  }

  device::FakeDevice device;
  core::Ledger ledger;
  std::unique_ptr<comm::Communicator> ranks;
  std::unique_ptr<offload::SliceStore> store;
  core::Buffer whole;
  std::optional<SlicesUp> up;
};

void expect_slice(Case& at, int slice, const void* place) {
  const Floats values = at.read(place);
  for (std::int64_t i = 0; i < kEach.count(); ++i) {
    ASSERT_EQ(values[static_cast<std::size_t>(i)], value_of(slice, i)) << slice << ", " << i;
  }
}

TEST(SlicesUp, ArriveWithFewPlacesAndWithMany) {
  for (const int places : {1, 2, kSlices}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(testing::Message() << places << " places, seed " << seed);
      Case at(seed, places);
      const core::Work compute{.arena = {}, .queue = &at.device.compute()};
      std::vector<comm::Pending> pending;
      for (int slice = 0; slice < kSlices; ++slice) pending.push_back(at.gather(slice));
      for (comm::Pending& each : pending) each.wait(compute);
      for (int slice = 0; slice < kSlices; ++slice) expect_slice(at, slice, at.slot(slice));
    }
  }
}

// One that has a place keeps it until it is waited for, and one that nobody waits for gives it up.
TEST(SlicesUp, AreWaitedForInTheOrderOfAsking) {
  Case at(1, 1);
  const core::Work compute{.arena = {}, .queue = &at.device.compute()};
  {
    const comm::Pending first = at.gather(0);
    comm::Pending second = at.gather(1);
    EXPECT_THROW(second.wait(compute), core::BugError);
  }
  comm::Pending third = at.gather(2);
  third.wait(compute);
  expect_slice(at, 2, at.slot(2));
}

// What is queued between asking and waiting does not hold the exchange up.
TEST(SlicesUp, AreExchangedWhileTheDeviceComputes) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    Case at(1, 1, world.split(std::vector{0, 1}));
    const comm::Span whole{at.slot(0), kEach * 2, core::DType::kF32};
    comm::Pending pending = at.up->gather(kPlace * world.rank(), whole);
    const auto gate = std::make_shared<device::Gate>();
    at.device.compute().wait(gate);
    pending.wait({.arena = {}, .queue = &at.device.compute()});
    gate->open();
    for (const int rank : {0, 1}) {
      expect_slice(at, rank, core::element_at(whole.data, kEach * rank, whole.dtype));
    }
  });
}

}  // namespace
}  // namespace fm::zero
