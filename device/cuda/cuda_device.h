// One card of a machine, for one rank.
#pragma once

#include <memory>
#include <string>

#include "core/device.h"
#include "device/cuda.h"
#include "device/cuda/card_attention.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/cuda_host_calls.h"
#include "device/cuda/cuda_laps.h"
#include "device/cuda/cuda_queue.h"

namespace fm::device::cuda {

// Thread:   as core::Device.
// Lifetime: as core::Device.
class CudaDevice : public core::Device {
 public:
  // `facts`: of the card `number`. Makes its context.
  CudaDevice(int number, CudaCard facts, CardAttends attends);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string name() const override { return facts_.name; }
  core::MemorySource& memory() override { return memory_; }
  core::Bytes memory_taken() const override { return facts_.free - memory_now().free; }
  core::Queue& compute() override { return *compute_; }
  core::Queue& in() override { return *in_; }
  core::Queue& out() override { return *out_; }

  const CudaCard& facts() const { return facts_; }
  void use() const { card_.use(); }
  std::shared_ptr<core::Queue> new_queue() override {
    return std::make_shared<CudaQueue>(card_, memory_, Priority::kHighest);
  }
  std::unique_ptr<core::HostCalls> new_host_calls() override {
    return std::make_unique<CudaHostCalls>(card_, memory_);
  }
  core::MemorySource& host_memory() override { return host_memory_; }

 private:
  struct MemoryNow {
    core::Bytes free, all;
  };

  void open_attention();
  MemoryNow memory_now() const;

  // cudaMalloc: a run allocates before its first step, and nothing after it.
  class CardMemory : public core::MemorySource {
   public:
    explicit CardMemory(CudaDevice& device) : device_(device) {}
    bool of_host() const override { return false; }
    void* allocate(core::Bytes bytes) override;
    void release(void* data, core::Bytes bytes) noexcept override;
    // It has one address: throws BugError.
    std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override;

   private:
    CudaDevice& device_;
  };

  // cudaHostAlloc, which is slow: as above. Null where the system pins no more.
  class PinnedMemory : public core::MemorySource {
   public:
    explicit PinnedMemory(const OpenCard& card) : card_(card) {}
    void* allocate(core::Bytes bytes) override;
    void release(void* data, core::Bytes bytes) noexcept override;
    // It has one address: throws BugError.
    std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override;

   private:
    const OpenCard& card_;
  };

  CudaCard facts_;
  OpenCard card_;
  CardMemory memory_{*this};
  PinnedMemory host_memory_{card_};
  void* workspace_ = nullptr;
  CudaLapClock laps_{card_};
  CudaMomentClock moments_{card_};
  QueueTimes times_{moments_};
  std::unique_ptr<CardProducts> products_;
  void* attention_workspace_ = nullptr;
  std::unique_ptr<CardAttention> attention_;  // null: our own kernels
  std::unique_ptr<CudaQueue> compute_, in_, out_;
};

}  // namespace fm::device::cuda
