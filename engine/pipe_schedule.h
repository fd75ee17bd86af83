// The schedule that a run's options choose, and what it goes by.
#pragma once

#include <span>
#include <vector>

#include "core/types.h"
#include "engine/options.h"
#include "pipeline/account.h"
#include "pipeline/placement.h"

namespace fm::engine {

// Without costs, which need the placement. Throws UserError for chunks that the schedule does not
// take.
pipeline::PipeShape pipe_shape_of(const TrainOptions& options, int micros);

// What one micro-batch costs on each pipe rank: times in floating-point operations, or as
// options.plan_times says; memory in bytes. `hidden`: bytes of one hidden state.
std::vector<pipeline::PhaseCosts> phase_costs(const TrainOptions& options,
                                              const pipeline::Placement& units,
                                              std::span<const pipeline::UnitFootprint> footprints,
                                              core::Bytes hidden);

}  // namespace fm::engine
