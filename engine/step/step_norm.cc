// The end of a step: the loss, the norm, and what follows from both; in one piece, or handed from
// pipe rank to pipe rank and validated in the step behind (pipeline/post_validation.h).
#include <algorithm>
#include <cmath>
#include <span>

#include "core/check.h"
#include "core/tree.h"
#include "engine/step/step_runtime.h"

namespace fm::engine {

using core::DType;
using core::Elements;
using core::Phase;
using core::TraceRange;

namespace {

comm::Span span_of(NormState& state) {
  static_assert(sizeof(NormState) == 6 * sizeof(double));
  return {&state, Elements(6), DType::kF64};
}

comm::Span span_of(std::span<double> numbers) {
  return {numbers.data(), Elements(std::ssize(numbers)), DType::kF64};
}

}  // namespace

// Of the head's pipe rank: sum and count. Slot s = k * dp + r; fp64 tree over slots.
std::array<double, 2> StepRuntime::own_loss() {
  const int dp_size = state_.plan.mesh.shards();
  const int micros = state_.plan.rules.micros;
  if (forward_only_) count();
  wait_for_count();
  state_.numbers
      ->all_gather({slot_loss_.data(), Elements(micros), DType::kF64},
                   {all_losses_.data(), Elements(std::int64_t{micros} * dp_size), DType::kF64})
      .wait();
  std::vector<double> by_slot(all_losses_.size());
  for (int k = 0; k < micros; ++k) {
    for (int r = 0; r < dp_size; ++r) {
      by_slot[static_cast<std::size_t>(k * dp_size + r)] =
          all_losses_[static_cast<std::size_t>(r * micros + k)];
    }
  }
  return {core::tree_sum(std::span(by_slot)), static_cast<double>(divisor_)};
}

// The same to all pipe ranks.
NormState StepRuntime::exchange_loss() {
  std::array<double, 2> told = {0.0, 0.0};
  if (units().has_head(state_.at.pipe_rank)) told = own_loss();
  state_.pipe->broadcast(span_of(std::span(told)), units().owner_of(units().head())).wait();
  return {.loss_sum = told[0], .valid = told[1]};
}

// What the step comes to; returns the factor of its gradients.
float StepRuntime::judge(const StepRequest& request, const NormState& state, StepResult& result) {
  const bool means = request.loss_reduction == LossReduction::kMeanOfMeans;
  result.loss_sum = state.loss_sum;
  result.valid = static_cast<std::int64_t>(state.valid);
  result.loss = !means && result.valid > 0 ? state.loss_sum / state.valid : state.loss_sum;
  result.grad_norm = std::sqrt(state.squared) / request.loss_scale;
  result.skipped =
      state.overflows > 0.0 || !std::isfinite(result.grad_norm) || !std::isfinite(result.loss);
  const double clip = request.gradient_clipping;
  const double scale = clip > 0.0 ? std::min(1.0, clip / (result.grad_norm + 1e-6)) : 1.0;
  result.clipped = scale < 1.0;
  return static_cast<float>(scale / request.loss_scale);
}

void StepRuntime::norm() {
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.settle(state_.work);
  // Before the update, so that a non-finite loss skips the step everywhere.
  NormState all = exchange_loss();
  all.squared = state_.norm.squared(state_.grads);
  all.overflows = overflows() ? 1.0 : 0.0;  // collective
  request_.scalars.grad_scale = judge(request_, all, result_);
}

void StepRuntime::report() {
  if (forward_only_) judge(request_, exchange_loss(), result_);
}

void StepRuntime::norm_part() {
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.settle(state_.work);
  for (comm::Pending& each : handed_) each.wait();
  known_ = {};
  if (units().has_head(state_.at.pipe_rank)) {
    const auto [sum, valid] = own_loss();
    known_.loss_sum = sum;
    known_.valid = valid;
  }
  known_.squared = state_.norm.take_own(state_.grads);
  const bool asks = request_.asks && request_.asks();
  std::int64_t any[2] = {own_overflow() ? 1 : 0, asks ? 1 : 0};
  // Not for fp16 alone: behind it all data ranks have read the weights that this rank may write.
  state_.numbers->all_reduce({any, Elements(2), DType::kI64}).wait();
  if (state_.tensor != nullptr) state_.tensor->all_reduce({any, Elements(2), DType::kI64}).wait();
  known_.overflows = static_cast<double>(any[0]);
  known_.asks = static_cast<double>(any[1]);
}

void StepRuntime::recv_norm() {
  const TraceRange range(clock_, Phase::kPipe);
  NormState before;
  const int peer = state_.at.pipe_rank - 1;
  comm::Pending arriving = state_.pipe->receive(span_of(before), peer);
  state_.pipe->receive(span_of(std::span(numbers_)), peer).wait();
  arriving.wait();
  state_.norm.take_before(numbers_);
  known_.squared += before.squared;
  known_.loss_sum += before.loss_sum;
  known_.valid += before.valid;
  known_.overflows += before.overflows;
  known_.asks += before.asks;
  known_.holds += before.holds;
  if (!is_last()) return;
  known_.squared = state_.norm.sum();
  request_.scalars.grad_scale = judge(request_, known_, result_);
}

// By what is known, the step is neither skipped nor clipped, or this rank waits for the rest.
void StepRuntime::send_norm() {
  const TraceRange range(clock_, Phase::kPipe);
  StepResult guess;
  request_.scalars.grad_scale = judge(request_, known_, guess);
  holds_ = known_.holds > 0.0 || guess.skipped || guess.clipped;
  if (holds_) known_.holds += 1.0;
  const int peer = state_.at.pipe_rank + 1;
  handed_[0] = state_.pipe->send(span_of(known_), peer);
  handed_[1] = state_.pipe->send(span_of(state_.norm.numbers()), peer);
}

// All that is known comes back from the last pipe rank.
void StepRuntime::validate() {
  if (!ahead_) return;
  const TraceRange range(clock_, Phase::kPipe);
  for (comm::Pending& each : handed_) each.wait();
  const int here = state_.at.pipe_rank;
  if (!is_last()) state_.pipe->receive(span_of(known_), here + 1).wait();
  telling_.wait();
  told_ = known_;
  if (here > 0) telling_ = state_.pipe->send(span_of(told_), here - 1);
  StepResult& result = ahead_->result;
  ahead_->request.scalars.grad_scale = judge(ahead_->request, known_, result);
  result.asked = known_.asks > 0.0;
  result.redone = result.skipped || result.clipped || known_.holds > 0.0;
  if (!result.redone) return;
  discard_forwards();
  if (!is_last()) redo_update();
}

StepResult StepRuntime::validate_step(const data::BatchStream& next, const StepRequest& request) {
  FM_CHECK(ahead_, "the last step did not end ahead");
  forward_only_ = false;
  stream_ = &next;
  request_ = request;
  const pipeline::Program& program =
      state_.plan.ahead[static_cast<std::size_t>(state_.at.pipe_rank)];
  const auto validation =
      std::ranges::find(program, pipeline::Op::kValidate, &pipeline::Instruction::op);
  begun_ = static_cast<std::size_t>(validation - program.begin()) + 1;
  pipeline::execute(std::span(program).first(begun_), *this);
  const StepResult result = ahead_->result;
  ahead_.reset();
  if (result.redone) begun_ = 0;
  return result;
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
    for (comm::Pending* each : {&gathered.own, &gathered.frozen, &gathered.tied}) each->wait();
    state_.gather_slots.take_back(gathered.slot);
  }
  gathered_.clear();
  counting_.wait();
  while (!publications_.empty()) wait_for_publication(publications_.begin()->first);
}

void StepRuntime::redo_update() {
  if (state_.plan.rules.plan.params == core::Home::kOncePerHost) {
    state_.dp->barrier().wait();  // nobody reads what changes now
  }
  const bool publishes = state_.plan.rules.plan.publishes();
  request_ = ahead_->request;
  request_.ends_ahead = false;
  holds_ = false;
  const StepResult& result = ahead_->result;
  for (const int unit : units().units_of(state_.at.pipe_rank)) {
    if (!state_.model.trains(unit)) continue;
    for (const int group : {state_.own_flat_param(unit), state_.tied_end(unit)}) {
      if (group < 0) continue;
      if (ahead_->updated) {
        state_.optimizer.undo(state_.work, group, state_.params, state_.grads);
      }
      if (!result.skipped) {
        state_.optimizer.update(state_.work, group, request_.scalars, state_.params, state_.grads);
      }
      if (publishes && state_.layout.at(group).alias < 0) publish_group(group);
    }
  }
}

}  // namespace fm::engine
