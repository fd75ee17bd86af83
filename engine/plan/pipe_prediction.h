// The predicted timeline of the pipe as JSON: for the picture of --plan --svg, and for a trace, so
// that a report can show what was predicted beside what was measured (observe/report/pipe_panel.h).
#pragma once

#include <string>

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "engine/plan/schedule_account.h"

namespace fm::engine {

// {"schedule": "1f1b", "micros": 8, "data_ranks": 2, "unit": "GFLOP", "chunk_of_unit": [0, ...],
//  "ranks": [[["forward", micro, unit, begin, end], ...], ...]}; ranks are pipe ranks, and what
// neither computes nor gathers nor sends is left out. The unit is that of options.plan_times or
// unit_times where these are given. One line.
std::string pipe_prediction(const TrainOptions& options, const RunPlan& plan);
// Of a schedule alone (study_schedule).
std::string pipe_prediction(const TrainOptions& options, const ScheduleStudy& study);

}  // namespace fm::engine
