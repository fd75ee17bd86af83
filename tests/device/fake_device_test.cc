#include "device/fake/fake_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/check.h"
#include "core/crossing.h"
#include "core/tensor_slice.h"
#include "core/work.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/optimizers.h"
#include "kernels/pointwise/rmsnorm.h"
#include "kernels/pointwise/sums.h"
#include "tests/device/gate.h"

namespace fm::device {
namespace {

using Floats = std::vector<float>;

constexpr core::Bytes kSize(16 << 20);

core::Bytes bytes_of(const Floats& values) {
  return core::Bytes(std::ssize(values) * std::int64_t{sizeof(float)});
}

// A number of floats in the memory of a device.
class Array {
 public:
  Array(FakeDevice& device, std::int64_t count)
      : device_(device), bytes_(count * std::int64_t{sizeof(float)}) {
    data_ = static_cast<float*>(device.memory().allocate(bytes_));
  }
  Array(FakeDevice& device, const Floats& values) : Array(device, std::ssize(values)) {
    device.compute().copy_in(values.data(), data_, bytes_);
    device.compute().finish();
  }
  ~Array() { device_.memory().release(data_, bytes_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  float* data() const { return data_; }
  Floats read(core::Queue& queue) const {
    Floats out(static_cast<std::size_t>(bytes_.count()) / sizeof(float));
    queue.copy_out(data_, out.data(), bytes_);
    queue.finish();
    return out;
  }

 private:
  FakeDevice& device_;
  core::Bytes bytes_;
  float* data_;
};

// Kernels whose arguments are numbers, pointers and aggregates of both.
Floats train_a_little(const core::Work& work, float* x, float* y, float* m, float* v) {
  kernels::scale(work, 8, 0.5F, x);
  kernels::add(work, 8, x, y);
  float* const rstd = m + 8;
  kernels::rmsnorm_rstd(work, {2, 4}, y, 1e-5, rstd);
  kernels::rmsnorm_apply<float>(work, {2, 4}, y, {x}, rstd, v + 8);
  kernels::adamw(work, {.lr = 0.1},
                 {.param = x, .grad = v + 8, .exp_avg = m, .exp_avg_sq = v, .count = 8});
  kernels::copy_rows<float>(work, {2, 2}, {x, 4}, {y, 4});
  return {};
}

TEST(FakeDevice, ItsKernelsGiveTheBitsOfThisCpu) {
  const Floats x = {1, -2, 3, -4, 5, -6, 7, -8};
  const Floats y = {0.5F, 1, 1.5F, 2, 2.5F, 3, 3.5F, 4};
  Floats here_x = x, here_y = y, here_m(16), here_v(16);
  train_a_little({}, here_x.data(), here_y.data(), here_m.data(), here_v.data());
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FakeDevice device(seed, kSize);
    const Array there_x(device, x), there_y(device, y), m(device, 16), v(device, 16);
    const core::Work work{.arena = {}, .queue = &device.compute()};
    train_a_little(work, there_x.data(), there_y.data(), m.data(), v.data());
    EXPECT_EQ(there_x.read(device.compute()), here_x);
    EXPECT_EQ(there_y.read(device.compute()), here_y);
    EXPECT_EQ(m.read(device.compute()), here_m);
  }
}

TEST(FakeDevice, TensorsAreReadAsTheyWereWritten) {
  FakeDevice device(3, kSize);
  for (const core::DType type : {core::DType::kF32, core::DType::kBF16, core::DType::kF16}) {
    const Array memory(device, 64);
    device.compute().forget(memory.data(), core::Bytes(256));
    core::TensorSlice slice =
        core::slice_in_memory("x", {6, 4}, core::Elements(4), nullptr, core::Elements(20));
    core::Crossing crossing(device.compute(), device.host_memory(), core::Bytes(16));
    slice.source = core::in_memory_of(&crossing, memory.data(), type);
    slice.at = core::Elements(3);
    {
      const core::FetchedRow row(slice, 0, core::FetchedRow::Use::kFill, core::Elements(5),
                                 core::Elements(7));
      for (std::size_t i = 0; i < 7; ++i) {
        EXPECT_FALSE(std::isnan(row.floats()[i])) << "nothing was read that is written anyway";
        row.floats()[i] = static_cast<float>(i) + 0.5F;
      }
    }
    const core::FetchedRow row(slice, 0, core::FetchedRow::Use::kRead);
    for (std::size_t i = 0; i < 7; ++i)
      EXPECT_EQ(row.floats()[5 + i], static_cast<float>(i) + 0.5F);
    Floats copy(7);
    slice.source->read(core::Elements(8), core::Elements(7), copy.data());
    EXPECT_EQ(copy, Floats(row.floats().begin() + 5, row.floats().begin() + 12));
    EXPECT_TRUE(std::isnan(row.floats()[0]));
  }
}

// Pieces of ten numbers, the last one shorter, behind kernels and before them.
TEST(FakeDevice, NumbersCrossInPiecesWheneverQueuesRun) {
  Floats values(123);
  std::iota(values.begin(), values.end(), 1.0F);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FakeDevice device(seed, kSize);
    const core::Work work{.arena = {}, .queue = &device.compute()};
    const Array array(device, std::ssize(values));
    core::Crossing crossing(device.compute(), device.host_memory(), core::Bytes(40));
    auto given = std::as_bytes(std::span(values));
    crossing.in(array.data(), bytes_of(values), [&](std::span<std::byte> piece) {
      std::ranges::copy(given.first(piece.size()), piece.begin());
      given = given.subspan(piece.size());
    });
    kernels::scale(work, std::ssize(values), 2.0F, array.data());
    Floats got;
    crossing.out(array.data(), bytes_of(values), [&](std::span<const std::byte> piece) {
      const auto* const from = reinterpret_cast<const float*>(piece.data());
      got.insert(got.end(), from, from + piece.size() / sizeof(float));
    });
    ASSERT_EQ(got.size(), values.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2.0F * values[i]) << i;
    crossing.out(array.data(), core::Bytes(0),
                 [](std::span<const std::byte>) { ADD_FAILURE() << "nothing is a piece"; });
  }
}

TEST(FakeDevice, TheHostMayNotReadItsMemory) {
  FakeDevice device(1, kSize);
  const Array array(device, Floats{1.0F});
  EXPECT_DEATH(std::exit(array.data()[0] == 1.0F ? 0 : 1), "");
}

TEST(FakeDevice, MemoryIsClearedInTheTimeOfItsQueue) {
  FakeDevice device(2, kSize);
  const auto gate = std::make_shared<Gate>();
  device.compute().wait(gate);
  const Array array(device, 2);
  EXPECT_TRUE(std::isnan(array.read(device.out())[0])) << "compute has not come to it";
  gate->open();
  device.compute().finish();
  EXPECT_EQ(array.read(device.out()), Floats(2));
}

TEST(FakeDevice, WhatIsForgottenIsNoNumberAnyMore) {
  FakeDevice device(3, kSize);
  const Array array(device, Floats{1.0F, 2.0F});
  device.compute().forget(array.data(), core::Bytes(4));
  const Floats left = array.read(device.compute());
  EXPECT_TRUE(std::isnan(left[0]));
  EXPECT_EQ(left[1], 2.0F);
}

// `in` is held; what compute reads is there only behind an event of it.
TEST(FakeDevice, QueuesHaveNoOrderButByEvents) {
  for (const bool waits : {true, false}) {
    FakeDevice device(4, kSize);
    const Array array(device, Floats{1.0F});
    const Floats arriving = {5.0F};
    const auto gate = std::make_shared<Gate>();
    device.in().wait(gate);
    device.in().copy_in(arriving.data(), array.data(), bytes_of(arriving));
    const core::EventPtr arrived = device.in().record();
    EXPECT_FALSE(arrived->has_come());
    if (waits) device.compute().wait(arrived);
    kernels::scale({.arena = {}, .queue = &device.compute()}, 1, 2.0F, array.data());
    if (!waits) device.compute().finish();
    gate->open();
    arrived->finish();
    device.compute().finish();
    EXPECT_EQ(array.read(device.out())[0], waits ? 10.0F : 5.0F);
  }
}

TEST(FakeDevice, AKernelWithMemoryOfTheHostIsADefect) {
  FakeDevice device(5, kSize);
  float number = 1.0F;
  const core::Work work{.arena = {}, .queue = &device.compute()};
  EXPECT_THROW(kernels::scale(work, 1, 2.0F, &number), core::BugError);
  EXPECT_THROW(device.memory().join({}), core::BugError);
}

TEST(FakeDevice, AFailureIsToldToWhoWaits) {
  FakeDevice device(6, kSize);
  class Failing : public core::QueueEvent {
   public:
    bool has_come() const override { return true; }
    void finish() override { FM_CHECK(false, "the peer is gone"); }
  };
  device.compute().wait(std::make_shared<Failing>());
  EXPECT_THROW(device.compute().finish(), core::BugError);
  EXPECT_NO_THROW(device.out().finish());
}

// What the host does in a queue's time stands between what is queued before and behind it.
TEST(FakeDevice, TheHostsOwnWorkRunsInTheQueuesTime) {
  FakeDevice device(4, kSize);
  const auto down = device.new_queue();
  const auto host = device.new_host_calls();
  const auto up = device.new_queue();
  const Array array(device, {1.0F, 2.0F, 3.0F});
  const Array result(device, 3);
  for (int round = 1; round <= 20; ++round) {
    Floats here(3, 0.0F);
    const auto gate = std::make_shared<Gate>();
    down->wait(gate);
    down->copy_out(array.data(), here.data(), bytes_of(here));
    host->wait(down->record());
    host->call([&] {
      for (float& value : here) value += static_cast<float>(round);
    });
    up->wait(host->record());
    up->copy_in(here.data(), result.data(), bytes_of(here));
    gate->open();
    const Floats expected = {1.0F + static_cast<float>(round), 2.0F + static_cast<float>(round),
                             3.0F + static_cast<float>(round)};
    EXPECT_EQ(result.read(*up), expected) << round;
  }
}

TEST(FakeDevice, WhatTheHostsOwnWorkThrowsIsToldToWhoWaits) {
  FakeDevice device(4, kSize);
  const auto host = device.new_host_calls();
  host->call([] { throw core::BugError("wrong"); });
  EXPECT_THROW(host->finish(), core::BugError);
  const auto other = device.new_queue();
  other->wait(host->record());
  EXPECT_THROW(other->finish(), core::BugError);
}

}  // namespace
}  // namespace fm::device
