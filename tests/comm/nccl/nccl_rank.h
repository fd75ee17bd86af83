// A rank of a test with a card that is none: a fake device whose queues are streams to the library
// that stands for NCCL.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/nccl/nccl.h"
#include "device/fake/fake_device.h"
#include "kernels/cuda/stream.h"
#include "tests/comm/nccl/fake_nccl.h"

namespace fm::comm {

// The library of tests: its NCCL, and what tests tell it.
struct FakeNccl {
  FindFunction find;
  decltype(&fme_fake_nccl_device) device = nullptr;
  decltype(&fme_fake_nccl_fault) fault = nullptr;
  decltype(&fme_fake_nccl_forget) forget = nullptr;
  decltype(&fme_fake_nccl_alive) alive = nullptr;
  decltype(&fme_fake_nccl_late_pairs) late_pairs = nullptr;
  decltype(&fme_fake_nccl_crowded_starts) crowded_starts = nullptr;
};
const FakeNccl& fake_nccl();

// A fake card with as many streams as one wants.
//
// Thread:   as core::Device.
// Lifetime: outlives its queues.
class FakeCard {
 public:
  explicit FakeCard(int rank);
  core::Device& device() { return *device_; }
  std::shared_ptr<core::Queue> make_queue();

  core::Ledger ledger;

 private:
  std::uint64_t next_seed_;
  const device::TwoViews* views_ = nullptr;
  core::MemorySource* memory_ = nullptr;
  std::unique_ptr<device::FakeDevice> device_;
};

// All members of `world`, again.
std::unique_ptr<Communicator> same_ranks(Communicator& world);

}  // namespace fm::comm
