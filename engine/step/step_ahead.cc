#include "engine/step/step_ahead.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fm::engine {

using core::Phase;
using core::TraceRange;

namespace {

std::span<double> span_of(StepSums& sums) {
  static_assert(sizeof(StepSums) == 6 * sizeof(double));
  return {reinterpret_cast<double*>(&sums), 6};
}

}  // namespace

StepAhead::StepAhead(RankState& state, core::PhaseClock& clock)
    : state_(state),
      clock_(clock),
      numbers_(state.plan.ahead.empty() ? 0 : state.norm.numbers().size()) {}

std::size_t StepAhead::begin_step() {
  deferred_ = false;
  return std::exchange(begun_, 0);
}

void StepAhead::end_step(const StepRequest& request, const StepResult& result) {
  if (!request.speculative) return;
  step_ = Step{request, result, !deferred_ && !result.skipped};
}

void StepAhead::take_part(const StepSums& own) {
  for (comm::Pending* each : {&sums_leave_, &norm_leaves_}) each->finish();
  sums_ = own;
  sums_.squared = state_.norm.take_own(state_.work, state_.grads);
  std::int64_t any[2] = {own.overflows > 0.0 ? 1 : 0, own.stop_requests > 0.0 ? 1 : 0};
  // Not for fp16 alone: behind it all data ranks have read the weights that this rank may write.
  state_.words.data.all_reduce(any).finish();
  state_.words.tensor.all_reduce(any).finish();
  sums_.overflows = static_cast<double>(any[0]);
  sums_.stop_requests = static_cast<double>(any[1]);
}

void StepAhead::receive_norm(StepRequest& request, StepResult& result) {
  const TraceRange range(clock_, Phase::kPipe);
  StepSums before;
  const int peer = state_.at.pipe_rank - 1;
  comm::Pending arriving = state_.words.pipe.receive(span_of(before), peer);
  state_.words.pipe.receive(numbers_, peer).finish();
  arriving.finish();
  state_.norm.take_before(numbers_);
  sums_.squared += before.squared;
  sums_.loss_sum += before.loss_sum;
  sums_.valid += before.valid;
  sums_.overflows += before.overflows;
  sums_.stop_requests += before.stop_requests;
  sums_.deferred_updates += before.deferred_updates;
  if (!is_last()) return;
  sums_.squared = state_.norm.sum();
  request.scalars.grad_scale = finalize_step(request, sums_, result);
}

void StepAhead::send_norm(StepRequest& request) {
  const TraceRange range(clock_, Phase::kPipe);
  StepResult so_far;
  request.scalars.grad_scale = finalize_step(request, sums_, so_far);
  deferred_ = sums_.deferred_updates > 0.0 || so_far.skipped || so_far.clipped;
  if (deferred_) sums_.deferred_updates += 1.0;
  const int peer = state_.at.pipe_rank + 1;
  sums_leave_ = state_.words.pipe.send(span_of(sums_), peer);
  norm_leaves_ = state_.words.pipe.send(state_.norm.numbers(), peer);
}

std::span<const pipeline::Instruction> StepAhead::beginning_of_next() const {
  FM_CHECK(step_, "the last step was not speculative");
  const pipeline::Program& program =
      state_.plan.ahead[static_cast<std::size_t>(state_.at.pipe_rank)];
  const auto validation =
      std::ranges::find(program, pipeline::Op::kValidate, &pipeline::Instruction::op);
  return std::span(program).first(static_cast<std::size_t>(validation - program.begin()) + 1);
}

const StepAhead::Step* StepAhead::validate() {
  if (!step_) return nullptr;
  const TraceRange range(clock_, Phase::kPipe);
  for (comm::Pending* each : {&sums_leave_, &norm_leaves_}) each->finish();
  const int here = state_.at.pipe_rank;
  if (!is_last()) state_.words.pipe.receive(span_of(sums_), here + 1).finish();
  final_leaves_.finish();
  final_ = sums_;
  if (here > 0) final_leaves_ = state_.words.pipe.send(span_of(final_), here - 1);
  StepResult& result = step_->result;
  step_->request.scalars.grad_scale = finalize_step(step_->request, final_, result);
  result.stop_requested = final_.stop_requests > 0.0;
  result.redone = result.skipped || result.clipped || final_.deferred_updates > 0.0;
  return result.redone ? &*step_ : nullptr;
}

StepResult StepAhead::take_result() {
  const StepResult result = step_.value().result;
  begun_ = result.redone ? 0 : beginning_of_next().size();
  step_.reset();
  return result;
}

void StepAhead::settle() {
  for (comm::Pending* each : {&sums_leave_, &norm_leaves_, &final_leaves_}) each->finish();
}

}  // namespace fm::engine
