// Steps that update before the norm of all pipe ranks is known (engine/step/step_ahead.h).
#include "engine/step/step_runtime.h"

namespace fm::engine {

using core::Phase;
using core::TraceRange;

void StepRuntime::norm_part() {
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.settle(state_.work);
  StepSums own;
  if (units().has_head(state_.at.pipe_rank)) {
    const auto [sum, valid] = own_loss();
    own.loss_sum = sum;
    own.valid = valid;
  }
  own.overflows = own_overflow() ? 1.0 : 0.0;
  own.stop_requests = request_.stop_requested && request_.stop_requested() ? 1.0 : 0.0;
  ahead_.take_part(own);
  clock_.read();
}

StepResult StepRuntime::validate_step(const data::BatchStream& next, const StepRequest& request) {
  forward_only_ = false;
  stream_ = &next;
  request_ = request;
  if (copies_) copies_->begin();
  pipeline::execute(ahead_.beginning_of_next(), *this, box_);
  if (copies_) copies_->settle();
  return ahead_.take_result();
}

void StepRuntime::validate() {
  const StepAhead::Step* const wrong = ahead_.validate();
  if (wrong == nullptr) return;
  const TraceRange range(clock_, Phase::kPipe);
  discard_forwards();
  redo_update(*wrong);
}

// Every message that was begun has its other end before the validation, too, and arrives.
void StepRuntime::discard_forwards() {
  for (auto& [at, hidden] : inputs_) {
    exchange_.wait_for(hidden);
    state_.hidden.take_back(hidden.data);
  }
  inputs_.clear();
  exchange_.settle();
  for (const auto& [at, kept] : kept_) state_.kept.take_back(kept);
  kept_.clear();
  for (auto& [unit, gathered] : gathered_) {
    for (comm::Pending* each : {&gathered.own, &gathered.frozen, &gathered.tied}) {
      each->wait(state_.work);
    }
    state_.gather_slots.take_back(gathered.slot);
  }
  gathered_.clear();
  counting_.finish();
  publications_.settle();
}

// The last pipe rank, which knew all sums, has updated by them.
void StepRuntime::redo_update(const StepAhead::Step& step) {
  if (state_.at.pipe_rank + 1 == state_.plan.mesh.pipe) return;
  if (state_.plan.rules.plan.params == core::Home::kOncePerHost) {
    state_.dp->barrier().finish();  // nobody reads what changes now
  }
  state_.params.changed();
  const bool publishes = state_.plan.rules.plan.publishes();
  for (const int unit : units().units_of(state_.at.pipe_rank)) {
    if (!state_.model.trains(unit)) continue;
    for (const int flat_param : {state_.own_flat_param(unit), state_.tied_end(unit)}) {
      if (flat_param < 0) continue;
      if (step.updated) state_.optimizer.undo(state_.work, flat_param, state_.params, state_.grads);
      if (!step.result.skipped) {
        state_.optimizer.update(state_.work, flat_param, step.request.scalars, state_.params,
                                state_.grads);
      }
      if (publishes && state_.layout.at(flat_param).alias < 0) publications_.publish(flat_param);
    }
  }
}

}  // namespace fm::engine
