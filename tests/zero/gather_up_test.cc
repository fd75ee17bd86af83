// Slices on their way from the host's memory to the fake device (zero/gather_from.h).
// Element i of rank r's slice is 100 r + i.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "comm/meet/world.h"
#include "comm/staged/staged.h"
#include "core/buffer.h"
#include "device/fake/fake_device.h"
#include "zero/gather_from.h"

namespace fm::zero {
namespace {

using core::Bytes;
using core::DType;
using core::Elements;
using device::FakeDevice;
using Floats = std::vector<float>;
using When = device::EarlyOrLate::When;

constexpr int kRanks = 2;
constexpr Elements kEach(64);

Floats slice_of(int rank) {
  Floats out(static_cast<std::size_t>(kEach.count()));
  std::iota(out.begin(), out.end(), static_cast<float>(100 * rank));
  return out;
}

// Counts what it is told to wait for.
class CountedQueue : public device::FakeQueue {
 public:
  CountedQueue(const device::TwoViews& views, core::MemorySource& memory, When when, int& waits)
      : FakeQueue(views, memory, std::make_unique<device::EarlyOrLate>(when)), waits_(waits) {}
  void wait(core::EventPtr event) override {
    ++waits_;
    FakeQueue::wait(std::move(event));
  }

 private:
  int& waits_;
};

struct Times {
  When compute, in, out;
};

void gather_at(const Times& times, comm::Communicator& world) {
  int waits[3] = {};  // of compute(), in() and out()
  FakeDevice device(
      [&](FakeDevice::Name name, const device::TwoViews& views, core::MemorySource& memory) {
        const When when[] = {times.compute, times.in, times.out};
        const auto at = static_cast<std::size_t>(name);
        return std::make_unique<CountedQueue>(views, memory, when[at], waits[at]);
      },
      Bytes(1 << 20));
  const auto ranks = comm::staged(world.split(std::vector{0, 1}), device);
  core::Ledger ledger;
  const core::Buffer slot =
      core::make_f32(ledger, core::Account::kSlots, kEach * kRanks, device.memory());
  const Floats slice = slice_of(world.rank());
  comm::Pending pending =
      gather_up(device, slice.data(), {slot.data(), kEach * kRanks, DType::kF32}, *ranks);
  EXPECT_EQ(waits[0], 0) << "what is computed meanwhile does not wait for the copy";
  pending.wait({.arena = {}, .queue = &device.compute()});
  EXPECT_EQ(waits[0], 1) << "who reads the slot waits for the exchange";
  Floats whole(static_cast<std::size_t>(kRanks * kEach.count()));
  device.compute().copy_out(slot.data(), whole.data(), slot.bytes());
  device.compute().finish();
  Floats expected = slice_of(0);
  for (const float value : slice_of(1)) expected.push_back(value);
  EXPECT_EQ(whole, expected);
}

TEST(GatherUp, TheExchangeAloneWaitsForTheCopy) {
  for (const When compute : {When::kEarly, When::kLate}) {
    for (const When in : {When::kEarly, When::kLate}) {
      for (const When out : {When::kEarly, When::kLate}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(compute) << static_cast<int>(in) << static_cast<int>(out));
        comm::run_ranks(kRanks, [&](comm::Communicator& world) {
          gather_at({compute, in, out}, world);
        });
      }
    }
  }
}

}  // namespace
}  // namespace fm::zero
