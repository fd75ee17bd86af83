#include "engine/step_runtime.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/fault.h"

namespace fm::engine {

using core::Elements;
using core::Phase;
using core::TraceRange;

StepRuntime::StepRuntime(RankState& state, core::PhaseClock& clock)
    : state_(state),
      clock_(clock),
      slot_loss_(static_cast<std::size_t>(state.plan.rules.micros)),
      all_losses_(slot_loss_.size() * static_cast<std::size_t>(state.plan.mesh.data)) {}

StepResult StepRuntime::train_step(const data::BatchStream& stream, const StepRequest& request) {
  stream_ = &stream;
  request_ = request;
  result_ = {};
  forward_only_ = false;
  run_program(state_.plan.train[static_cast<std::size_t>(state_.at.pipe_rank)]);
  return result_;
}

StepResult StepRuntime::evaluate_step(const data::BatchStream& stream) {
  stream_ = &stream;
  request_ = {};
  result_ = {};
  forward_only_ = true;
  run_program(state_.plan.eval[static_cast<std::size_t>(state_.at.pipe_rank)]);
  return result_;
}

std::optional<NonFinite> StepRuntime::locate_non_finite(const data::BatchStream& stream,
                                                        const StepRequest& request) {
  StepRequest again = request;
  again.apply = false;
  found_.reset();
  watching_ = true;
  train_step(stream, again);
  watching_ = false;
  return found_;
}

void StepRuntime::run_program(const pipeline::Program& program) {
  state_.grads.begin_step();
  std::fill(slot_loss_.begin(), slot_loss_.end(), 0.0);
  pipeline::execute(program, *this);
  end_of_program();
}

void StepRuntime::run(const pipeline::Instruction& at) {
  using pipeline::Op;
  switch (at.op) {
    case Op::kCount: return count();
    case Op::kLoad: return;  // the stream holds the whole step; the micro-batch is an index into it
    case Op::kSendAct: return send_act(at.micro);
    case Op::kRecvAct: return recv_act(at.micro);
    case Op::kSendGrad: return send_grad(at.micro);
    case Op::kRecvGrad: return recv_grad(at.micro);
    case Op::kGather: return gather(at.unit);
    case Op::kRelease: return release(at.unit);
    case Op::kForward: return forward(at.micro, at.unit);
    case Op::kLoss: return loss(at.micro);
    case Op::kBackwardInput: return backward_input(at.micro, at.unit);
    case Op::kBackwardWeight: return backward_weight(at.micro, at.unit);
    case Op::kRecompute: return recompute(at.micro, at.unit);
    case Op::kReduce: return reduce(at.micro, at.unit);
    case Op::kReduceTied: return reduce_tied();
    case Op::kNorm: return norm();
    case Op::kUpdate: return update(at.unit);
    case Op::kPublish: return publish(at.unit);
    case Op::kReport: return report();
    case Op::kBackward:
    case Op::kFetch:
    case Op::kStore: break;
  }
  FM_CHECK(false, "nothing runs ", print(at), " here");
}

void StepRuntime::end_of_program() {
  settle(sent_act_);
  settle(sent_grad_);
  FM_CHECK(inputs_.empty() && gradients_.empty() && kept_.empty() && gathered_.empty(),
           "a step left buffers behind");
}

model::UnitCall StepRuntime::call_of(int micro, int unit, core::Arena& scratch,
                                     bool reads_weights) {
  const data::MicroBatch& batch = stream_->micro(micro);
  model::Saved saved;
  saved.parked = state_.parked.data();
  const auto input = inputs_.find({micro, unit});
  if (input != inputs_.end()) saved.input_BTD = input->second.data;
  const auto kept = kept_.find({micro, unit});
  if (kept != kept_.end()) saved.kept = kept->second;
  return {reads_weights ? weights_of(unit) : model::Weights{},
          {state_.plan.shape, batch.tokens_BT.data(), batch.labels_BT.data()},
          saved,
          scratch};
}

void* StepRuntime::whole_weights(int unit, int group, Elements behind) {
  if (group < 0) return nullptr;
  if (void* whole = state_.params.whole(group)) return whole;
  return core::element_at(gathered_.at(unit), behind, state_.model.element);
}

model::Weights StepRuntime::weights_of(int unit) {
  const int own = state_.own_group(unit);
  return {whole_weights(unit, own, Elements(0)),
          whole_weights(unit, state_.tied_group(unit), state_.layout.at(own).map.padded())};
}

comm::Span StepRuntime::hidden_span(void* data) const {
  return {data, state_.plan.account.hidden, state_.model.element};
}

StepRuntime::Hidden StepRuntime::receive_from(int pipe_rank) {
  Hidden hidden{state_.hidden.lend(), {}};
  hidden.arriving = state_.pipe->receive(hidden_span(hidden.data), pipe_rank);
  return hidden;
}

void StepRuntime::send_to(int pipe_rank, void* data, Sent& sent) {
  settle(sent);
  sent.data = data;
  sent.leaving = state_.pipe->send(hidden_span(data), pipe_rank);
}

void StepRuntime::settle(Sent& sent) {
  if (sent.data == nullptr) return;
  const TraceRange range(clock_, Phase::kPipe);
  sent.leaving.wait();
  state_.hidden.take_back(std::exchange(sent.data, nullptr));
}

void StepRuntime::send_act(int micro) {
  const auto output = inputs_.extract({micro, body().last});
  send_to(state_.at.pipe_rank + 1, output.mapped().data, sent_act_);
}

void StepRuntime::recv_act(int micro) {
  inputs_[{micro, body().first}] = receive_from(state_.at.pipe_rank - 1);
}

void StepRuntime::send_grad(int micro) {
  const auto gradient = gradients_.extract(micro);
  send_to(state_.at.pipe_rank - 1, gradient.mapped().data, sent_grad_);
}

void StepRuntime::recv_grad(int micro) {
  gradients_[micro] = receive_from(state_.at.pipe_rank + 1);
}

void StepRuntime::gather(int unit) {
  const TraceRange range(clock_, Phase::kGather);
  void* const slot = state_.gather_slots.lend();
  gathered_[unit] = slot;
  const int own = state_.own_group(unit);
  state_.params.gather(own, slot).wait();
  const int tied = state_.tied_group(unit);
  if (tied < 0) return;
  const Elements behind = state_.layout.at(own).map.padded();
  state_.params.gather(tied, core::element_at(slot, behind, state_.model.element)).wait();
}

void StepRuntime::release(int unit) {
  state_.gather_slots.take_back(gathered_.extract(unit).mapped());
}

void StepRuntime::forward(int micro, int unit) {
  if (unit > 0) {
    const TraceRange range(clock_, Phase::kPipe);
    inputs_.at({micro, unit}).arriving.wait();
  }
  const TraceRange range(clock_, Phase::kForward);
  const bool block = row().is_block(unit);
  if (block) kept_[{micro, unit}] = state_.kept.lend();
  void* const output = state_.hidden.lend();
  core::Arena scratch = arena();
  unit_at(unit).forward(call_of(micro, unit, scratch), output);
  inputs_[{micro, unit + 1}] = Hidden{output, {}};
  if (block && (state_.plan.rules.recompute || forward_only_)) {
    state_.kept.take_back(kept_.extract({micro, unit}).mapped());
  }
  if (forward_only_ && unit > 0) {
    state_.hidden.take_back(inputs_.extract({micro, unit}).mapped().data);
  }
}

double StepRuntime::loss_scale(int micro) const {
  const bool mean_of_means = request_.loss_reduction == LossReduction::kMeanOfMeans;
  const std::int64_t valid = mean_of_means ? stream_->count_valid(micro) : divisor_;
  const auto slots = static_cast<double>(all_losses_.size());
  if (valid == 0) return 0.0;
  return 1.0 / (static_cast<double>(valid) * (mean_of_means ? slots : 1.0));
}

void StepRuntime::loss(int micro) {
  const TraceRange range(clock_, Phase::kLoss);
  const int head = row().head();
  void* const hidden = inputs_.extract({micro, head}).mapped().data;
  core::Arena scratch = arena();
  double& sum = slot_loss_[static_cast<std::size_t>(micro)];
  if (forward_only_) {
    sum = state_.model.head->evaluate(call_of(micro, head, scratch), hidden);
    state_.hidden.take_back(hidden);
    return;
  }
  bool assign = true;
  const double scale = loss_scale(micro);
  const model::Gradients gradients = destinations(micro, head, assign);
  sum = state_.model.head->loss(call_of(micro, head, scratch), hidden, scale, gradients,
                                assign ? model::Write::kAssign : model::Write::kAdd);
  if (request_.loss_reduction == LossReduction::kMeanOfMeans) sum *= scale;
  gradients_[micro] = Hidden{hidden, {}};
  scan(micro, head, gradients);
}

void StepRuntime::backward_input(int micro, int unit) {
  Hidden& gradient = gradients_.at(micro);
  {
    const TraceRange range(clock_, Phase::kPipe);
    gradient.arriving.wait();
  }
  const TraceRange range(clock_, Phase::kBackward);
  void* const doutput = gradient.data;
  void* const dinput = unit > 0 ? state_.hidden.lend() : nullptr;
  core::Arena scratch = arena();
  const bool reads = row().reads_weights({pipeline::Op::kBackwardInput, micro, unit});
  unit_at(unit).backward_input(call_of(micro, unit, scratch, reads), doutput, dinput);
  state_.hidden.take_back(doutput);
  if (dinput == nullptr) {
    gradients_.erase(micro);
  } else {
    gradient.data = dinput;
  }
}

void StepRuntime::backward_weight(int micro, int unit) {
  const TraceRange range(clock_, Phase::kBackward);
  bool assign = true;
  const model::Gradients gradients = destinations(micro, unit, assign);
  core::Arena scratch = arena();
  const bool reads = row().reads_weights({pipeline::Op::kBackwardWeight, micro, unit});
  unit_at(unit).backward_weight(call_of(micro, unit, scratch, reads), gradients,
                                assign ? model::Write::kAssign : model::Write::kAdd);
  if (unit > 0) state_.hidden.take_back(inputs_.extract({micro, unit}).mapped().data);
  if (row().is_block(unit)) state_.kept.take_back(kept_.extract({micro, unit}).mapped());
  const core::FaultSite site = {"bwd.layer", state_.world.rank(), request_.step};
  if (core::fault(site) == core::FaultEffect::kNan) gradients.own[0] = std::nanf("");
  scan(micro, unit, gradients);
}

void StepRuntime::recompute(int micro, int unit) {
  const TraceRange range(clock_, Phase::kForward);
  kept_[{micro, unit}] = state_.kept.lend();
  core::Arena scratch = arena();
  unit_at(unit).forward(call_of(micro, unit, scratch), nullptr);
}

}  // namespace fm::engine
