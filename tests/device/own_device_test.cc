// A device of somebody else's, beside the fake one: memory, a queue and two kernels. No file of the
// product knows of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "comm/staged/staged.h"
#include "core/answers.h"
#include "core/check.h"
#include "core/device.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/sums.h"
#include "kernels/variants/table.h"

namespace fm::device {
namespace {

class OwnMemory : public core::MemorySource {
 public:
  bool of_host() const override { return false; }
  void* allocate(core::Bytes bytes) override {
    ++blocks;
    return std::calloc(1, static_cast<std::size_t>(bytes.count()));
  }
  void release(void* data, core::Bytes) noexcept override {
    --blocks;
    std::free(data);
  }
  std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts&) override {
    FM_CHECK(false, "one address");
  }

  int blocks = 0;
};

// Whatever is queued is done at once.
class OwnQueue : public core::Queue {
 public:
  explicit OwnQueue(OwnMemory& memory) : memory_(memory) {
    kernels_.any_reaches = [](const core::Work& work, std::span<const float> values, float limit,
                              std::int32_t* found) {
      ++static_cast<OwnQueue&>(*work.queue).scans;
      *found = std::ranges::any_of(values, [=](float value) { return value >= limit; }) ? 1 : 0;
    };
    kernels_.fp32.scale = [](const core::Work& work, std::int64_t count, float factor,
                             float* values) {
      ++static_cast<OwnQueue&>(*work.queue).scales;
      for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
    };
  }

  const core::QueueKernels& kernels() const override { return kernels_; }
  core::MemorySource& memory() override { return memory_; }
  void copy_in(const void* host, void* device, core::Bytes bytes) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes.count()));
  }
  void copy_out(const void* device, void* host, core::Bytes bytes) override {
    std::memcpy(host, device, static_cast<std::size_t>(bytes.count()));
  }
  void forget(void*, core::Bytes) override { ++forgotten; }
  void tell_time(std::int64_t*) override {}
  core::EventPtr record() override {
    class Come : public core::QueueEvent {
     public:
      bool has_come() const override { return true; }
      void finish() override {}
    };
    return std::make_shared<Come>();
  }
  void wait(core::EventPtr) override {}

  int scans = 0;
  int scales = 0;
  int forgotten = 0;

 private:
  OwnMemory& memory_;
  kernels::DeviceKernels kernels_;
};

class OwnDevice : public core::Device {
 public:
  std::string name() const override { return "own device"; }
  core::MemorySource& memory() override { return source; }
  core::Bytes memory_taken() const override { return {}; }
  core::Queue& compute() override { return queue; }
  core::Queue& in() override { return queue; }
  core::Queue& out() override { return queue; }
  std::shared_ptr<core::Queue> new_queue() override { return std::make_shared<OwnQueue>(source); }
  std::unique_ptr<core::HostCalls> new_host_calls() override {
    FM_CHECK(false, "its host does nothing");
  }
  core::MemorySource& host_memory() override { return core::heap(); }

  OwnMemory source;
  OwnQueue queue{source};
};

TEST(OwnDevice, RunsItsKernelsInItsMemory) {
  OwnDevice device;
  core::Ledger ledger;
  const core::RankMemory memory(ledger, device.memory());
  {
    const core::Buffer scratch(ledger, core::Account::kScratch, core::Bytes(1024), memory.source);
    core::Work work{.arena = core::Arena(scratch.span(), &device.compute()),
                    .queue = &device.compute()};
    core::Answers<std::int32_t> found(memory, 1);
    EXPECT_EQ(device.source.blocks, 2);
    {
      const core::Arena::Scope scope(work.arena);
      float* const values = work.arena.take<float>(2);
      const float ones[] = {1.0F, 1.0F};
      device.in().copy_in(ones, values, core::Bytes(8));
      kernels::scale(work, 2, 3.0F, values);
      kernels::any_reaches(work, {values, 2}, 3.0F, found.place().data());
      EXPECT_EQ(found.read(work).front(), 1);
    }
    EXPECT_EQ(device.queue.scales, 1);
    EXPECT_EQ(device.queue.scans, 1);
    EXPECT_EQ(device.queue.forgotten, 1) << "what the arena gave is free";
    EXPECT_THROW(kernels::add(work, 0, nullptr, nullptr), core::BugError) << "it has none";
  }
  EXPECT_EQ(device.source.blocks, 0);
}

TEST(OwnDevice, ItsRanksTalkByStaging) {
  OwnDevice device;
  core::Ledger ledger;
  const core::Buffer values =
      core::make_f32(ledger, core::Account::kScratch, core::Elements(4), device.memory());
  const auto ranks = comm::staged(comm::make_solo(), device);
  ranks->all_reduce({values.data(), core::Elements(4), core::DType::kF32})
      .wait({.arena = {}, .queue = &device.compute()});
  EXPECT_EQ(values.f32()[3], 0.0F);
}

}  // namespace
}  // namespace fm::device
