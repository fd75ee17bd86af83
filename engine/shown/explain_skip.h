// Why a step was skipped.
#pragma once

#include "engine/shown/run_log.h"
#include "engine/state/progress_state.h"
#include "engine/step/step_runtime.h"

namespace fm::engine {

struct SkippedRun {
  StepRuntime& runtime;
  const data::BatchStream& stream;  // holds the step's rows
  RankState& state;
  const ProgressState& progress;  // before the step
  RunLog& log;
};

// Nothing was changed, so the same step is run again to see where it goes wrong: the rank that is
// first says which parameter, in which micro-batch. Collective.
void explain_skip(const SkippedRun& run, const StepRequest& request, const StepResult& result);

}  // namespace fm::engine
