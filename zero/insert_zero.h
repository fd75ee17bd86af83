// The ZeRO pass: gather and release around every use of a unit's weights, a reduction after its
// gradients, and the optimizer boundary at the end of the step.
#pragma once

#include "core/shard_plan.h"
#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::zero {

// Pure. An evaluation only gets its gathers.
pipeline::Program insert_zero(const pipeline::Program& program, const core::ShardPlan& plan,
                              const pipeline::Placement& units, int pipe_rank);

}  // namespace fm::zero
