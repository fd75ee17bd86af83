// --schedule auto: the schedule with the least predicted time of a step that fits the memory.
#pragma once

#include <functional>

#include "engine/options.h"
#include "engine/plan/run_plan.h"

namespace fm::engine {

// `options` with the schedule chosen; unchanged where auto_schedule is not set. Schedules that
// refuse the shape are left out; of equal times the first of the table counts. Where none fits,
// the one that keeps the fewest micro-batches is chosen, so that the refusal names its needs.
// Throws UserError where every schedule refuses.
TrainOptions with_schedule(const TrainOptions& options, const model::Model& model,
                           const WorldShape& world,
                           const std::function<bool(const RunPlan&)>& fits);

}  // namespace fm::engine
