// Ranks that compute on devices, and talk through the memory of their hosts.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "core/device.h"

namespace fm::comm {

// Tensors in the device's memory, moved by `host`: what a verb sends leaves the device when all
// that was queued on compute() before has run, and what it receives is written when that has, too.
// memory() is the device's; nothing is common. Sums have no visitor.
//
// Thread:   as of `host`. A call copies what it sends before it returns.
// Lifetime: the device outlives it; it owns `host`.
std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator> host, core::Device& device);

}  // namespace fm::comm
