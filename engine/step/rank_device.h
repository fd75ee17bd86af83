// What a rank computes on, and how it exchanges tensors with others.
#pragma once

#include <functional>
#include <memory>

#include "comm/nccl/nccl.h"
#include "core/device.h"

namespace fm::engine {

// Ranks that exchange tensors in the memory of their devices, over `host`, the same ranks. What it
// allocates is charged to the ledger.
using TensorLink = std::function<std::unique_ptr<comm::Communicator>(
    std::unique_ptr<comm::Communicator> host, core::Ledger& ledger, const comm::NcclUse& use)>;

struct RankDevice {
  core::Device* device = nullptr;  // null: this CPU
  TensorLink link = nullptr;       // null: tensors are staged through the host
};

}  // namespace fm::engine
