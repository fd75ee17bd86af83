// Times of what streams run, by CUDA's events.
#pragma once

#include "device/cuda/cuda_queue.h"
#include "device/cuda/queue_times.h"
#include "device/cuda/tuned_products.h"

namespace fm::device::cuda {

// Thread:   the rank's.
// Lifetime: the card outlives it.
class CudaLapClock : public LapClock {
 public:
  explicit CudaLapClock(const OpenCard& card) : card_(card) {}
  std::unique_ptr<Lap> begin(void* stream) override;

 private:
  const OpenCard& card_;
};

// Thread:   any that uses the card.
// Lifetime: the card outlives it and its moments.
class CudaMomentClock : public MomentClock {
 public:
  explicit CudaMomentClock(const OpenCard& card) : card_(card) {}
  std::unique_ptr<Moment> mark(void* stream) override;

 private:
  const OpenCard& card_;
};

}  // namespace fm::device::cuda
