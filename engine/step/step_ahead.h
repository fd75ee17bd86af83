// Speculative updates (pipeline/post_validation.h, arXiv 2401.10241 section 4): a step updates
// before the norm of all pipe ranks is known, and the next one learns whether that was right. What
// it gains is in docs/schedules.md, "No bubble between steps".
//
//   Np  this pipe rank's sums                       rn  those of the ranks before are added
//   sn  the sums so far go to the rank behind       V   the sums of all come back
//
// A rank defers its update where the sums so far already say that the step is skipped or clipped,
// and so does every rank behind it. The last rank knows all sums and never speculates.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/phases.h"
#include "engine/step/rank_state.h"
#include "engine/step/step_result.h"

namespace fm::engine {

// Invariant: a result is in flight from the end of a speculative step to take_result(). A buffer is
//            written when the message that was sent from it has left.
// Thread:    the rank's thread.
// Lifetime:  state and clock outlive it.
class StepAhead {
 public:
  struct Step {
    StepRequest request;
    StepResult result;
    bool updated = false;  // before all sums were known
  };

  StepAhead(RankState& state, core::PhaseClock& clock);

  // Returns how many instructions of the step have run already: its forwards before V.
  std::size_t begin_step();
  // Keeps a speculative step until its result is final.
  void end_step(const StepRequest& request, const StepResult& result);
  bool result_in_flight() const { return step_.has_value(); }

  // Np. `own`: without the norm's, which this takes; collective over all ranks of a pipe rank.
  void take_part(const StepSums& own);
  // rn. The last pipe rank finalizes the step.
  void receive_norm(StepRequest& request, StepResult& result);
  // sn. Sets the gradient scale that the sums so far ask for.
  void send_norm(StepRequest& request);
  bool defers_update() const { return deferred_; }

  // The instructions of the next step up to its V.
  std::span<const pipeline::Instruction> beginning_of_next() const;
  // V. The step whose update must be undone and done again, or left out; null where there is none.
  const Step* validate();
  // The final result, when beginning_of_next() has run.
  StepResult take_result();

  // No message is in flight any more.
  void settle();

 private:
  bool is_last() const { return state_.at.pipe_rank + 1 == state_.plan.mesh.pipe; }

  RankState& state_;
  core::PhaseClock& clock_;
  std::optional<Step> step_;                // whose result is in flight
  StepSums sums_;                           // so far
  StepSums final_;                          // on their way to the pipe rank before
  std::vector<double> numbers_;             // of the norm, as they come
  comm::Pending sums_leave_, norm_leaves_;  // to the pipe rank behind
  comm::Pending final_leaves_;
  bool deferred_ = false;
  std::size_t begun_ = 0;  // instructions of the next step that have run
};

}  // namespace fm::engine
