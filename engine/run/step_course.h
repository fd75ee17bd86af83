// What a step is made with, what it leaves of the run's progress, and which steps are speculative.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "engine/run/run_saves.h"
#include "engine/run/signals.h"
#include "engine/shown/step_line.h"
#include "engine/state/progress_state.h"
#include "engine/step/step_runtime.h"
#include "text/data/sample_source.h"

namespace fm::engine {

// Counts a step of so many samples. Throws MachineError (23) when fp16 has no smaller loss scale.
void advance(const TrainOptions& options, const StepResult& result, std::int64_t samples,
             const RunSaves& saves, ProgressState& progress);

// A step and what it took; the result of a speculative step comes later.
struct TimedStep {
  StepRequest request;
  StepResult result;
  double seconds = 0.0;
  core::PhaseTimes phases;
  core::Bytes mem_peak;
  std::optional<core::Bytes> device_memory = {};  // that is taken; absent: there is no device
  std::int64_t minor_faults = 0;
  std::optional<offload::SliceStore::Totals> moved = {};
};

// What is shown of a step that `progress` counts, without an evaluation.
StepLine line_of(const TimedStep& step, const TrainOptions& options, const RunPlan& plan,
                 const ProgressState& progress);

// "step 3 trains nothing: none of its samples has a label that counts (document 5; document 2)".
std::string untrained_text(const data::SampleSource& rows, const ProgressState& progress,
                           std::int64_t samples);

// Which steps are speculative (pipeline/post_validation.h), and the last one while its result is in
// flight. A step is speculative if so many before it were neither clipped nor skipped, and nobody
// has to look at the weights after it: a save, an evaluation, the end, a signal.
//
// Invariant: the answers are the same on all ranks.
// Thread:    the rank's thread.
// Lifetime:  options and plan outlive it, and signals, which may be null.
class SpeculativeSteps {
 public:
  SpeculativeSteps(const TrainOptions& options, const RunPlan& plan, const SignalInbox* signals,
                   bool evaluates)
      : options_(options),
        signals_(signals),
        possible_(!plan.ahead.empty()),
        evaluates_(evaluates) {}

  // What the step after those that `progress` counts is asked for. While a save is under way, some
  // steps in between end as others do, for it goes on behind such steps only.
  StepRequest next_request(const ProgressState& progress, bool saving) const;
  // Steps that have run and that no progress counts yet: 0 or 1.
  int in_flight() const { return last_ ? 1 : 0; }
  // A speculative step has run.
  void hold(const TimedStep& step) { last_ = step; }
  // The step in flight with its final result, if there is one. `rows`: of the step after it.
  std::optional<TimedStep> take_validated(StepRuntime& runtime, const data::BatchStream& rows);
  // Every step, in their order, when its result is final.
  void see(const StepResult& result);

 private:
  bool may_speculate(std::int64_t step) const;

  const TrainOptions& options_;
  const SignalInbox* signals_;
  bool possible_;
  bool evaluates_;
  bool stop_requested_ = false;
  int unclipped_ = 0;              // steps in a row
  std::optional<TimedStep> last_;  // whose result is in flight
};

}  // namespace fm::engine
