#include "engine/step/step_runtime.h"

#include <cmath>
#include <limits>
#include <span>

#include "core/check.h"
#include "core/element.h"
#include "core/fault.h"
#include "core/tree.h"
#include "engine/step/sleeping_units.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/moves.h"

namespace fm::engine {

using core::DType;
using core::Elements;
using core::Phase;
using core::TraceRange;

StepRuntime::StepRuntime(RankState& state, core::PhaseClock& clock, core::BlackBox* box)
    : state_(state),
      clock_(clock),
      box_(box),
      exchange_(state, clock),
      ahead_(state, clock),
      publications_(state),
      slot_loss_(state.memory, static_cast<std::size_t>(state.plan.rules.micros)),
      scan_(state.memory, state.model,
            state.model.element == DType::kF16 ? state.plan.rules.micros : 1),
      all_losses_(slot_loss_.size() * static_cast<std::size_t>(state.plan.mesh.shards())) {
  if (state.device == nullptr) return;
  copies_.emplace(*state.device, state.ledger, state.host_ledger, state.plan.shape,
                  state.plan.rules.micros);
}

StepResult StepRuntime::train_step(const data::BatchStream& stream, const StepRequest& request) {
  FM_CHECK(!ahead_.result_in_flight(), "the last step is not validated");
  forward_only_ = false;
  return run_program(request.speculative ? state_.plan.ahead : state_.plan.train, stream, request);
}

StepResult StepRuntime::evaluate_step(const data::BatchStream& stream) {
  forward_only_ = true;
  return run_program(state_.plan.eval, stream, {});
}

std::optional<NonFinite> StepRuntime::locate_non_finite(const data::BatchStream& stream,
                                                        const StepRequest& request) {
  StepRequest again = request;
  again.apply = again.speculative = false;
  if (state_.model.element == DType::kF16) return scan_.first(state_.work);
  watching_ = true;
  train_step(stream, again);
  watching_ = false;
  return scan_.first(state_.work);
}

StepResult StepRuntime::run_program(const std::vector<pipeline::Program>& by_pipe_rank,
                                    const data::BatchStream& stream, const StepRequest& request) {
  stream_ = &stream;
  request_ = request;
  result_ = {};
  state_.grads.begin_step();
  state_.params.changed();  // by a resume, or the step before
  scan_.begin_step();
  kernels::clear_sums(state_.work, slot_loss_.place());
  if (copies_) copies_->begin();
  const std::span program(by_pipe_rank[static_cast<std::size_t>(state_.at.pipe_rank)]);
  pipeline::execute(program.subspan(ahead_.begin_step()), *this, box_);
  end_of_program();
  ahead_.end_step(request_, result_);
  return result_;
}

void StepRuntime::run(const pipeline::Instruction& at) {
  using pipeline::Op;
  switch (at.op) {
    case Op::kCount: return count();
    case Op::kLoad: return;  // the stream holds the whole step; the micro-batch is an index into it
    case Op::kSendAct: return send_act(at.micro, at.unit);
    case Op::kRecvAct: return recv_act(at.micro, at.unit);
    case Op::kSendGrad: return send_grad(at.micro, at.unit);
    case Op::kRecvGrad: return recv_grad(at.micro, at.unit);
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
    case Op::kNormPart: return norm_part();
    case Op::kRecvNorm: return ahead_.receive_norm(request_, result_);
    case Op::kSendNorm: return ahead_.send_norm(request_);
    case Op::kValidate: return validate();
    case Op::kUpdate: return update(at.unit);
    case Op::kPublish: return publish(at.unit);
    case Op::kReport: return report();
    case Op::kRest: return rest(at.unit);
    case Op::kFetch: return fetch(at.unit);
    case Op::kStore: return store(at.unit);
    case Op::kBackward: break;
  }
  FM_CHECK(false, "nothing runs ", print(at), " here");
}

void StepRuntime::end_of_program() {
  if (!forward_only_) end_step_of_state(state_, !result_.skipped);
  exchange_.settle();
  if (copies_) copies_->settle();
  FM_CHECK(inputs_.empty() && gradients_.empty() && filled_.empty() && kept_.empty() &&
               parked_.empty() && gathered_.empty(),
           "a step left buffers behind");
}

// Sample s of a step is row s % batch of slot s / batch (text/data/batch_stream.h).
std::optional<model::StepDropout> StepRuntime::dropout_of(int micro) const {
  if (forward_only_) return std::nullopt;
  const std::int64_t slot = std::int64_t{micro} * state_.plan.mesh.data + state_.at.dp_rank;
  return model::StepDropout{
      .seed = request_.seed, .step = request_.step, .first_sample = slot * state_.plan.shape.batch};
}

std::optional<model::UnitInput::Copies> StepRuntime::copies_of(int micro) {
  if (!copies_) return std::nullopt;
  return copies_->of(micro, stream_->micro(micro));
}

model::UnitCall StepRuntime::call_of(int micro, int unit, bool reads_weights) {
  const data::MicroBatch& batch = stream_->micro(micro);
  model::Saved saved;
  const MicroUnit here{micro, unit};
  if (const auto at = inputs_.find(here); at != inputs_.end()) saved.input_BTD = at->second.data;
  if (const auto at = kept_.find(here); at != kept_.end()) saved.kept = at->second;
  if (const auto at = parked_.find(here); at != parked_.end()) saved.parked = at->second;
  return {reads_weights ? weights_of(unit) : model::Weights{},
          {.shape = state_.plan.shape,
           .tokens_BT = batch.tokens_BT.data(),
           .labels_BT = batch.labels_BT.data(),
           .starts_BT = batch.starts_BT.empty() ? nullptr : batch.starts_BT.data(),
           .copies = copies_of(micro),
           .dropout = dropout_of(micro),
           .runs = state_.token_runs()},
          saved,
          state_.work,
          state_.peers()};
}

void* StepRuntime::whole_weights(int unit, int flat_param, Elements behind) {
  if (flat_param < 0) return nullptr;
  if (void* whole = state_.params.whole(flat_param)) return whole;
  return core::element_at(gathered_.at(unit).slot, behind, state_.model.element);
}

// Most units of most micro-batches have: a range would mark two places in a device's queue.
bool StepRuntime::has_weights(int unit) const {
  if (gathered_.contains(unit) || state_.on_host) return false;
  const int tied = state_.tied_flat_param(unit);
  return !publications_.awaits(state_.own_flat_param(unit)) &&
         (tied < 0 || !publications_.awaits(state_.layout.home_of(tied)));
}

// A gather, or the publication of the last step.
void StepRuntime::wait_for_weights(int unit) {
  if (has_weights(unit)) return;
  const TraceRange range(clock_, Phase::kGather);
  if (const auto at = gathered_.find(unit); at != gathered_.end()) {
    at->second.own.wait(state_.work);
    at->second.frozen.wait(state_.work);
    at->second.tied.wait(state_.work);
  }
  publications_.wait_for(state_.own_flat_param(unit));
  const int tied = state_.tied_flat_param(unit);
  if (tied >= 0) publications_.wait_for(state_.layout.home_of(tied));
}

model::Weights StepRuntime::weights_of(int unit) {
  const int own = state_.own_flat_param(unit);
  return {.own = whole_weights(unit, own, Elements(0)),
          .frozen = whole_weights(unit, state_.frozen_flat_param(unit),
                                  state_.layout.at(own).map.padded()),
          .tied = whole_weights(unit, state_.tied_flat_param(unit), state_.layout.tied.gathered)};
}

void StepRuntime::send_act(int micro, int unit) {
  exchange_.send_to(units().owner_of(unit), inputs_.extract({micro, unit}).mapped().data,
                    HiddenExchange::Direction::kForward);
}

void StepRuntime::recv_act(int micro, int unit) {
  inputs_[{micro, unit}] = exchange_.receive_from(units().owner_of(unit - 1));
}

void StepRuntime::send_grad(int micro, int unit) {
  exchange_.send_to(units().owner_of(unit), gradients_.extract({micro, unit}).mapped().data,
                    HiddenExchange::Direction::kBackward);
}

void StepRuntime::recv_grad(int micro, int unit) {
  gradients_[{micro, unit}] = exchange_.receive_from(units().owner_of(unit + 1));
}

void StepRuntime::gather(int unit) {
  const TraceRange range(clock_, Phase::kGather);
  Gathered& gathered = gathered_[unit];
  gathered.slot = state_.gather_slots.lend();
  const int own = state_.own_flat_param(unit);
  const auto gather_behind = [&](int flat_param, Elements behind) {
    if (flat_param < 0) return comm::Pending();
    state_.arrive(flat_param);
    return state_.params.gather(flat_param,
                                core::element_at(gathered.slot, behind, state_.model.element));
  };
  gathered.own = gather_behind(own, Elements(0));
  gathered.frozen =
      gather_behind(state_.frozen_flat_param(unit), state_.layout.at(own).map.padded());
  gathered.tied = gather_behind(state_.tied_flat_param(unit), state_.layout.tied.gathered);
}

void StepRuntime::release(int unit) {
  void* const slot = gathered_.extract(unit).mapped().slot;
  const int own = state_.own_flat_param(unit);
  const auto keep_behind = [&](int flat_param, Elements behind) {
    if (flat_param < 0) return;
    state_.params.keep(state_.work, flat_param,
                       core::element_at(slot, behind, state_.model.element));
  };
  keep_behind(own, Elements(0));
  keep_behind(state_.frozen_flat_param(unit), state_.layout.at(own).map.padded());
  keep_behind(state_.tied_flat_param(unit), state_.layout.tied.gathered);
  state_.gather_slots.take_back(slot);
}

void StepRuntime::forward(int micro, int unit) {
  if (units().is_tile(unit)) return forward_tile(micro, unit);
  if (unit > 0) exchange_.wait_for(inputs_.at({micro, unit}));
  wait_for_weights(unit);
  const TraceRange range(clock_, Phase::kForward);
  if (unit == units().head()) return begin_head_tiles(micro);
  const bool block = units().is_block(unit);
  if (block) kept_[{micro, unit}] = state_.kept.lend();
  void* const output =
      is_tiled_embedding(unit) ? filled_.extract(micro).mapped() : state_.hidden.lend();
  const core::Arena::Scope scratch(state_.work.arena);
  unit_at(unit).forward(call_of(micro, unit), output);
  inputs_[{micro, unit + 1}] = Hidden{output, {}};
  const bool again = block && state_.plan.rules.recompute && !passes(unit);
  if (again || (block && passes(unit))) {
    state_.kept.take_back(kept_.extract({micro, unit}).mapped());
  }
  if ((passes(unit) && unit > 0) || (again && !units().starts_segment(unit))) {
    state_.hidden.take_back(inputs_.extract({micro, unit}).mapped().data);
  }
}

double StepRuntime::weight_of_token(int micro) const {
  const bool mean_of_means = request_.loss_reduction == LossReduction::kMeanOfMeans;
  const std::int64_t valid = mean_of_means ? stream_->count_valid(micro) : divisor_;
  const auto means = static_cast<double>(state_.plan.batch.slots());
  if (valid == 0) return 0.0;
  return 1.0 / (static_cast<double>(valid) * (mean_of_means ? means : 1.0));
}

void StepRuntime::loss(int micro) {
  const int head = units().head();
  Hidden input = std::move(inputs_.extract({micro, head}).mapped());
  exchange_.wait_for(input);
  wait_for_weights(head);
  if (!forward_only_) wait_for_count();
  const TraceRange range(clock_, Phase::kLoss);
  void* const hidden = input.data;
  const core::Arena::Scope scratch(state_.work.arena);
  const bool tiled = units().head_tiles().count() > 0;
  double* const sum = &slot_loss_.place()[static_cast<std::size_t>(micro)];
  if (forward_only_) {
    state_.model.head->evaluate(call_of(micro, head), hidden, sum);
    if (tiled) state_.between.take_back(kept_.extract({micro, head}).mapped());
    state_.hidden.take_back(hidden);
    return;
  }
  bool assign = true;
  const double weight = weight_of_token(micro);
  model::Gradients gradients = destinations(micro, head, assign);
  gradients.input = units().gives_gradient(head);
  state_.model.head->loss(call_of(micro, head), hidden, weight * request_.loss_scale, gradients,
                          assign ? model::Write::kAssign : model::Write::kAdd, sum);
  if (tiled) state_.between.take_back(kept_.extract({micro, head}).mapped());
  scan(micro, head, gradients);
  if (!gradients.input) return state_.hidden.take_back(hidden);
  gradients_[{micro, head - 1}] = Hidden{hidden, {}};
}

void StepRuntime::backward_input(int micro, int unit) {
  Hidden gradient = std::move(gradients_.extract({micro, unit}).mapped());
  exchange_.wait_for(gradient);
  wait_for_weights(unit);
  const TraceRange range(clock_, Phase::kBackward);
  const bool tiled = is_tiled_embedding(unit);
  parked_[{micro, unit}] = tiled ? gradient.data : state_.parked.lend();
  void* const dinput = units().gives_gradient(unit) ? state_.hidden.lend() : nullptr;
  const core::Arena::Scope scratch(state_.work.arena);
  const bool reads = units().reads_weights({pipeline::Op::kBackwardInput, micro, unit});
  unit_at(unit).backward_input(call_of(micro, unit, reads), gradient.data, dinput);
  if (!tiled) state_.hidden.take_back(gradient.data);
  if (dinput != nullptr) gradients_[{micro, unit - 1}] = Hidden{dinput, {}};
}

void StepRuntime::backward_weight(int micro, int unit) {
  if (units().is_tile(unit)) return backward_tile(micro, unit);
  const TraceRange range(clock_, Phase::kBackward);
  bool assign = true;
  const model::Gradients gradients = destinations(micro, unit, assign);
  const core::Arena::Scope scratch(state_.work.arena);
  unit_at(unit).backward_weight(call_of(micro, unit, false), gradients,
                                assign ? model::Write::kAssign : model::Write::kAdd);
  BufferPool& place = is_tiled_embedding(unit) ? state_.hidden : state_.parked;
  place.take_back(parked_.extract({micro, unit}).mapped());
  if (unit > 0) state_.hidden.take_back(inputs_.extract({micro, unit}).mapped().data);
  if (units().is_block(unit)) state_.kept.take_back(kept_.extract({micro, unit}).mapped());
  const core::FaultSite site = {"bwd.layer", state_.world.rank(), request_.step};
  const bool faulty = core::fault(site) == core::FaultEffect::kNan;
  if (faulty && gradients.own != nullptr) {
    kernels::scale(state_.work, 1, std::nanf(""), gradients.own);
  }
  scan(micro, unit, gradients);
}

void StepRuntime::recompute(int micro, int unit) {
  wait_for_weights(unit);
  if (units().is_tile(unit)) return pass_head_tile(micro, unit, model::TilePass::kSums, {});
  const TraceRange range(clock_, Phase::kForward);
  kept_[{micro, unit}] = state_.kept.lend();
  void* const output = units().ends_segment(unit) ? nullptr : state_.hidden.lend();
  const core::Arena::Scope scratch(state_.work.arena);
  unit_at(unit).forward(call_of(micro, unit), output);
  if (output != nullptr) inputs_[{micro, unit + 1}] = Hidden{output, {}};
}

// Looks for the first gradient that is not finite, in the order they are written; in fp16 always,
// and for what fp16 does not hold.
void StepRuntime::scan(int micro, int unit, const model::Gradients& written) {
  const float limit = limit_of_own();
  const float least = limit > 0.0F ? limit : std::numeric_limits<float>::infinity();
  if (!watching_ && limit == 0.0F) return;
  const auto look = [&](const core::ParamTable& table, const float* gradient) {
    scan_.look(state_.work, {micro, unit, table, gradient}, least);
  };
  if (written.tied != nullptr) look(*state_.model.head->tied_params(), written.tied);
  look(state_.model.table(unit), written.own);
}

model::Gradients StepRuntime::destinations(int micro, int unit, bool& assign) {
  model::Gradients out;
  if (!state_.model.trains(unit)) return out;
  claim_gradient(state_, unit);
  const auto at_own = state_.grads.destination(state_.work, state_.own_flat_param(unit), micro);
  out.own = at_own.whole;
  assign = at_own.assign;
  const int tied = state_.tied_flat_param(unit);
  if (tied < 0 || state_.layout.is_frozen(tied)) return out;
  const auto at_tied = state_.grads.destination(state_.work, tied, micro);
  FM_CHECK(at_tied.assign == assign, "both flat parameters of the head are written alike");
  out.tied = at_tied.whole;
  return out;
}

void StepRuntime::count() {
  const TraceRange range(clock_, Phase::kData);
  divisor_ = stream_->count_valid();
  counting_ = state_.words.data.all_reduce(std::span(&divisor_, 1));
}

void StepRuntime::wait_for_count() {
  if (counting_.done()) return;
  const TraceRange range(clock_, Phase::kData);
  counting_.finish();
}

void StepRuntime::reduce(int micro, int unit) {
  if (!state_.model.trains(unit)) return;
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.reduce(state_.work, state_.own_flat_param(unit), micro);
  const int tied = state_.tied_end(unit);
  if (tied >= 0) state_.grads.reduce(state_.work, tied, micro);
}

void StepRuntime::rest(int unit) {
  if (!state_.model.trains(unit)) return;
  const TraceRange range(clock_, Phase::kReduce);
  keep_for_norm(unit);
  rest_gradient(state_, unit);
}

void StepRuntime::keep_for_norm(int unit) {
  const int own = state_.own_flat_param(unit);
  state_.grads.settle(state_.work, own);
  if (state_.model.element == DType::kF16) {
    state_.grads.keep_reaches(state_.work, own, core::kF16Overflow);  // as own_overflow asks
  }
  state_.norm.keep(state_.work, state_.grads, own);
}

void StepRuntime::reduce_tied() {
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.settle(state_.work);
  state_.tied.run(state_.work, state_.grads);
}

// The end of a step: the loss, the norm, and what follows from both.

// Of the head's pipe rank: sum and count. Slot s = k * dp + r; fp64 tree over those of the step.
std::array<double, 2> StepRuntime::own_loss() {
  const int dp_size = state_.plan.mesh.shards();
  const int micros = state_.plan.rules.micros;
  if (forward_only_) count();
  wait_for_count();
  const std::span<double> slot_loss = slot_loss_.read(state_.work);
  if (!forward_only_ && request_.loss_reduction == LossReduction::kMeanOfMeans) {
    for (int k = 0; k < micros; ++k) slot_loss[static_cast<std::size_t>(k)] *= weight_of_token(k);
  }
  state_.words.data.all_gather(slot_loss, all_losses_).finish();
  std::vector<double> by_slot(all_losses_.size());
  for (int k = 0; k < micros; ++k) {
    for (int r = 0; r < dp_size; ++r) {
      by_slot[static_cast<std::size_t>(k * dp_size + r)] =
          all_losses_[static_cast<std::size_t>(r * micros + k)];
    }
  }
  by_slot.resize(static_cast<std::size_t>(state_.plan.batch.slots() * state_.plan.mesh.sequence));
  return {core::tree_sum(std::span(by_slot)), static_cast<double>(divisor_)};
}

// The same on all pipe ranks.
StepSums StepRuntime::exchange_loss() {
  std::array<double, 2> loss = {0.0, 0.0};
  if (units().has_head(state_.at.pipe_rank)) loss = own_loss();
  state_.words.pipe.broadcast(loss, units().owner_of(units().head())).finish();
  return {.loss_sum = loss[0], .valid = loss[1]};
}

void StepRuntime::norm() {
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.settle(state_.work);
  // Before the update, so that a non-finite loss skips the step everywhere.
  StepSums all = exchange_loss();
  all.squared = state_.norm.squared(state_.work, state_.grads);
  all.overflows = overflows() ? 1.0 : 0.0;  // collective
  request_.scalars.grad_scale = finalize_step(request_, all, result_);
  clock_.read();
}

void StepRuntime::report() {
  if (forward_only_) finalize_step(request_, exchange_loss(), result_);
}

// Gradients are fp32, DeepSpeed's are fp16. What would have overflowed there is an overflow here,
// so that the loss scale goes the same way (runtime/zero/stage_1_and_2.py, stage3.py,
// fp16/fused_optimizer.py): a rank's own gradient, of one micro-batch or summed where the plan adds
// micro-batches up, before it is divided by the number of ranks; then the mean over the ranks,
// without ZeRO their sum. Ours are divided from the first on.
float StepRuntime::limit_of_own() const {
  if (state_.model.element != DType::kF16) return 0.0F;
  return core::kF16Overflow / static_cast<float>(state_.plan.mesh.shards());
}

// Only in fp16.
bool StepRuntime::own_overflow() {
  if (state_.model.element != DType::kF16) return false;
  const bool no_zero = state_.layout.plan.optimizer == core::Home::kEveryRank;
  return scan_.first(state_.work) ||
         state_.grads.any_reaches(state_.work, no_zero ? limit_of_own() : core::kF16Overflow);
}

// Collective in fp16.
bool StepRuntime::overflows() {
  if (state_.model.element != DType::kF16) return false;
  std::int64_t any = own_overflow() ? 1 : 0;
  for (comm::Words* ranks : {&state_.words.data, &state_.words.pipe, &state_.words.tensor}) {
    ranks->all_reduce(std::span(&any, 1)).finish();
  }
  return any > 0;
}

bool StepRuntime::changes(int unit) const {
  return !result_.skipped && !ahead_.defers_update() && request_.apply && state_.model.trains(unit);
}

void StepRuntime::update(int unit) {
  const bool early = updates_early(unit);
  if (early && state_.model.trains(unit)) {
    keep_for_norm(unit);
    request_.scalars.grad_scale = static_cast<float>(1.0 / request_.loss_scale);
  }
  if (!changes(unit)) return;
  const TraceRange range(clock_, Phase::kOptimizer);
  // Where the state sleeps on a disk it was fetched before the norm was known.
  if (state_.sleeping != nullptr) fetch_gradients(state_, unit);
  wake_state(state_, unit);
  if (pipeline::takes_from_slot(state_.plan.rules.gradients, units(), unit)) {
    take_from_slot(state_.own_flat_param(unit), gathered_.at(unit).slot);
  }
  if (!early) state_.params.changed();
  for (const int flat_param : {state_.own_flat_param(unit), state_.tied_end(unit)}) {
    if (flat_param < 0) continue;
    if (early) state_.params.changed(flat_param);  // others are still to be gathered
    if (request_.speculative && state_.layout.undoes) {
      state_.optimizer.set_aside(state_.work, flat_param, state_.params, state_.grads);
    }
    if (state_.on_host && state_.on_host->has(flat_param)) {
      state_.on_host->update(flat_param, request_.scalars, state_.params);
      continue;
    }
    state_.optimizer.update(state_.work, flat_param, request_.scalars, state_.params, state_.grads);
  }
}

// What the update changes, out of the whole weights.
void StepRuntime::take_from_slot(int flat_param, const void* slot) {
  const zero::Range& owned = state_.layout.at(flat_param).owned;
  kernels::copy(state_.work, owned.count.count(),
                static_cast<const float*>(slot) + owned.first.count(),
                static_cast<float*>(state_.params.slice(flat_param)));
}

void StepRuntime::fetch(int unit) {
  const TraceRange range(clock_, Phase::kOptimizer);
  if (changes(unit) && state_.sleeping == nullptr) fetch_gradients(state_, unit);
  fetch_state(state_, unit);
}

void StepRuntime::store(int unit) {
  const TraceRange range(clock_, Phase::kOptimizer);
  if (changes(unit)) store_params(state_, unit);
  return changes(unit) ? store_state(state_, unit) : drop_state(state_, unit);
}

void StepRuntime::publish(int unit) {
  if (!changes(unit)) return;
  const TraceRange range(clock_, Phase::kGather);
  publications_.publish(state_.own_flat_param(unit));
  const int tied = state_.tied_end(unit);
  if (tied >= 0 && state_.layout.at(tied).alias < 0) publications_.publish(tied);
}

void StepRuntime::settle() {
  publications_.settle();
  if (state_.on_host) state_.on_host->finish();
  settle_state(state_);
  ahead_.settle();
}

}  // namespace fm::engine
