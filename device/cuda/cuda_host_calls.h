// This CPU's work in a stream of a CUDA device.
#pragma once

#include "core/host_calls.h"
#include "device/cuda/cuda_queue.h"

namespace fm::device::cuda {

// The driver's thread runs the functions.
//
// Thread:   as core::HostCalls.
// Lifetime: as core::HostCalls.
class CudaHostCalls : public core::HostCalls {
 public:
  CudaHostCalls(const OpenCard& card, core::MemorySource& memory)
      : card_(card), queue_(card, memory, Priority::kNormal) {}
  void call(std::function<void()> task) override;
  void wait(core::EventPtr event) override { queue_.wait(std::move(event)); }
  core::EventPtr record() override { return queue_.record(); }

 private:
  const OpenCard& card_;
  CudaQueue queue_;
};

}  // namespace fm::device::cuda
