// How ranks with a card each talk: NCCL.
#pragma once

#include <functional>
#include <string>

#include "core/check.h"
#include "core/device.h"
#include "engine/step/rank_device.h"

namespace fm::cli {

// Of a device that device::open_cuda has opened; it outlives the link. `on_end`: as
// comm::NcclPlace has it. Throws UserError (10) where the library is missing.
engine::TensorLink card_link(core::Device& device, const std::string& self, int limit_ms,
                             const std::function<void(const core::MachineError&)>& on_end);

}  // namespace fm::cli
