// The programs of all pipe ranks, checked: the fourth stage of a plan (engine/plan/run_plan.h).
#pragma once

#include <vector>

#include "engine/options.h"
#include "engine/plan/pipe_schedule.h"
#include "engine/plan/run_shape.h"
#include "model/unit.h"
#include "pipeline/validate.h"

namespace fm::engine {

struct RunPrograms {
  pipeline::ProgramRules rules;                // units, micros, shard plan
  std::vector<pipeline::Program> train, eval;  // by pipe rank
  // Of a step that the one behind it validates (pipeline/post_validation.h); empty: no step is.
  std::vector<pipeline::Program> ahead;
};

// All passes behind the schedule, in order (ARCHITECTURE.md, "From options to programs"). Throws
// UserError for a schedule of the user's own that the validator refuses.
RunPrograms build_programs(const TrainOptions& options, const model::Model& model,
                           const RunShape& run, const pipeline::Placement& placed,
                           const RunSchedule& schedule);

}  // namespace fm::engine
