// A queue of a CUDA device: a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/queue.h"
#include "device/cuda/card_attention.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/queue_times.h"
#include "kernels/cuda/stream.h"
#include "kernels/variants/table.h"

namespace fm::device::cuda {

// The first failure of the host's own work in a queue of a card.
//
// Thread: any.
class HostFailure {
 public:
  void set(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(failure);
  }
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
};

// What the queues of a card have in common.
//
// Thread:   the rank's thread, and those that move what it sends.
// Lifetime: outlives the queues and their events.
struct OpenCard {
  int number = 0;
  std::string name;  // for messages: "GPU 0 (NVIDIA H100 80GB HBM3, GPU-6c3e...)"
  int multiprocessors = 0;
  bool checks = false;  // waits for every kernel (FME_DEVICE_CHECK=1)
  const kernels::DeviceKernels* kernels = nullptr;
  std::shared_ptr<HostFailure> host = std::make_shared<HostFailure>();
  QueueTimes* times = nullptr;  // of its queues

  // Makes it the card of the caller's thread.
  void use() const;
  // Of events, by any thread. `during`: what was queued before, for messages.
  bool has_come(cudaEvent_t event, const char* during) const;
  void finish(cudaEvent_t event, const char* during) const;
  void drop(cudaEvent_t event) const noexcept;
};

// Events without times, which are cheap to make again: they go back where they came from.
//
// Thread:   any.
// Lifetime: as core::QueueEvent.
class CudaEvent : public core::QueueEvent {
 public:
  explicit CudaEvent(const OpenCard& card);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool has_come() const override;
  void finish() override;

  cudaEvent_t handle() const { return event_; }
  // `during`: what was queued last before it; it lives as long as the program.
  void record(cudaStream_t stream, const char* during);

 private:
  const OpenCard& card_;
  cudaEvent_t event_ = nullptr;
  const char* during_ = "nothing";
};

enum class Priority : std::uint8_t { kNormal, kHighest };

// Thread:   as core::Queue.
// Lifetime: card, memory, products and attention outlive it.
class CudaQueue : public core::Queue,
                  public kernels::cuda::Stream,
                  public Multiplies,
                  public Attends {
 public:
  CudaQueue(const OpenCard& card, core::MemorySource& memory, Priority priority);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  const core::QueueKernels& kernels() const override { return *card_.kernels; }
  core::MemorySource& memory() override { return memory_; }
  using core::Queue::drop_kept;
  void copy_in(const void* host, void* device, core::Bytes bytes) override;
  void copy_out(const void* device, void* host, core::Bytes bytes) override;
  void forget(void* device, core::Bytes bytes) override;
  void tell_time(std::int64_t* ns) override;
  core::EventPtr record() override;
  void wait(core::EventPtr event) override;

  void* handle() const override { return stream_; }
  kernels::cuda::Workspace workspace() const override { return workspace_; }
  int multiprocessors() const override { return card_.multiprocessors; }
  void check_start(const char* kernel) const override;
  CardProducts& products() const override;
  CardAttention* attention() const override { return attention_; }

  // Zeros, in the queue's time.
  void clear(void* device, core::Bytes bytes);
  // For a queue that computes: where its kernels and products work.
  void give(kernels::cuda::Workspace workspace, CardProducts& products, CardAttention* attention);

 private:
  const OpenCard& card_;
  core::MemorySource& memory_;
  cudaStream_t stream_ = nullptr;
  kernels::cuda::Workspace workspace_;
  CardProducts* products_ = nullptr;
  CardAttention* attention_ = nullptr;
  mutable const char* during_ = "nothing";
};

}  // namespace fm::device::cuda
