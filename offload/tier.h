// Where bytes sleep between steps. Today everything stays on the device; host and NVMe tiers come
// with their own stores and make insert_offload add Fetch and Store.
#pragma once

#include <cstdint>

#include "pipeline/instruction.h"

namespace fm::offload {

enum class Tier : std::uint8_t { kDevice, kHost, kNvme };

// Fetch before and Store after every Update of a slice that sleeps elsewhere than on the device.
pipeline::Program insert_offload(const pipeline::Program& program, Tier optimizer_tier);

}  // namespace fm::offload
