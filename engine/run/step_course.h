// What a step is made with, what it leaves of the run's progress, and which steps end ahead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "engine/run/run_saves.h"
#include "engine/shown/step_line.h"
#include "engine/state/progress_state.h"
#include "engine/step/step_runtime.h"
#include "text/data/sample_source.h"

namespace fm::engine {

// The step behind those that `progress` counts.
StepRequest next_request(const TrainOptions& options, const ProgressState& progress);

// Counts a step of so many samples. Throws MachineError (23) when fp16 has no smaller loss scale.
void advance(const TrainOptions& options, const StepResult& result, std::int64_t samples,
             const RunSaves& saves, ProgressState& progress);

// A step and what it took; a step that ended ahead gets its result later.
struct TimedStep {
  StepRequest request;
  StepResult result;
  double seconds = 0.0;
  core::PhaseClock phases;
  core::Bytes mem_peak;
  std::int64_t minor_faults = 0;
};

// What is shown of a step that `progress` counts, without an evaluation.
StepLine line_of(const TimedStep& step, const TrainOptions& options, const RunPlan& plan,
                 const ProgressState& progress);

// "step 3 trains nothing: none of its samples has a label that counts (document 5; document 2)".
std::string untrained_text(const data::SampleSource& rows, const ProgressState& progress,
                           std::int64_t samples);

// Steps end ahead (pipeline/post_validation.h) when so many before them were neither clipped nor
// skipped, and nobody has to look at the weights behind them: a save, an evaluation, the end, a
// signal.
//
// Invariant: the answer is the same on all ranks.
// Thread:    the rank's thread.
// Lifetime:  options and plan outlive it.
class AheadSteps {
 public:
  AheadSteps(const TrainOptions& options, const RunPlan& plan, bool evaluates)
      : options_(options), possible_(!plan.ahead.empty()), evaluates_(evaluates) {}

  // Every step, in their order, when its result is known.
  void see(const StepResult& result);
  bool may_end_ahead(std::int64_t step) const;

 private:
  const TrainOptions& options_;
  bool possible_;
  bool evaluates_;
  bool asked_ = false;
  int unclipped_ = 0;  // steps in a row
};

}  // namespace fm::engine
