// A device that no machine has, to prove on every machine that the engine serves one: its memory
// may not be touched by the host, its queues run later than they might, what is not written is NaN.
// Its kernels are this CPU's, so that its results are, bit for bit.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/device.h"
#include "device/fake/fake_queue.h"
#include "device/fake/two_views.h"

namespace fm::device {

// Thread:   as core::Device.
// Lifetime: as core::Device.
class FakeDevice : public core::Device {
 public:
  static constexpr core::Bytes kMemory = core::Bytes(std::int64_t{8} << 30);

  // `seed`: of the times at which the queues run.
  explicit FakeDevice(std::uint64_t seed, core::Bytes memory = kMemory);
  // From kFirstNew on: what was asked for later.
  enum class Name : std::uint8_t { kCompute, kIn, kOut, kFirstNew };
  // With queues that run otherwise.
  using MakeQueue = std::function<std::unique_ptr<FakeQueue>(Name name, const TwoViews& views,
                                                             core::MemorySource& memory)>;
  explicit FakeDevice(MakeQueue make, core::Bytes memory = kMemory);
  ~FakeDevice() override {
    for (const auto& queue : queues_) queue->drop_kept();
  }

  std::string name() const override { return "fake device"; }
  core::MemorySource& memory() override { return memory_; }
  core::Bytes memory_taken() const override { return core::Bytes(memory_.taken); }
  core::Queue& compute() override { return *queues_[0]; }
  core::Queue& in() override { return *queues_[1]; }
  core::Queue& out() override { return *queues_[2]; }
  std::shared_ptr<core::Queue> new_queue() override { return make_next(); }
  std::unique_ptr<core::HostCalls> new_host_calls() override;
  core::MemorySource& host_memory() override { return core::heap(); }

 private:
  // Fresh memory is NaN until compute() comes to clear it; memory goes back when all queues are
  // done.
  class Memory : public core::MemorySource {
   public:
    explicit Memory(FakeDevice& device) : device_(device) {}
    bool of_host() const override { return false; }
    void* allocate(core::Bytes bytes) override;
    void release(void* data, core::Bytes bytes) noexcept override;
    // It has one address: throws BugError.
    std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override;

    std::atomic<std::int64_t> taken = 0;  // bytes that were asked for

   private:
    FakeDevice& device_;
  };

  std::unique_ptr<FakeQueue> make_next();

  TwoViews views_;
  Memory memory_{*this};
  MakeQueue make_;
  int new_queues_ = 0;
  std::array<std::unique_ptr<FakeQueue>, 3> queues_;
};

}  // namespace fm::device
