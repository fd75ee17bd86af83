// Moves of slices between tiers. Today everything stays on the device; host and NVMe tiers come
// with their own stores.
#pragma once

#include "core/shard_plan.h"
#include "pipeline/instruction.h"

namespace fm::offload {

// Fetch before and Store after every Update of a slice that sleeps elsewhere than on the device.
pipeline::Program insert_offload(const pipeline::Program& program, core::Tier optimizer_tier);

}  // namespace fm::offload
