// The second half of StepRuntime: gradients, the global numbers and the update.
#include <cmath>

#include "core/check.h"
#include "core/tree.h"
#include "engine/step_runtime.h"

namespace fm::engine {

using core::DType;
using core::Elements;
using core::Phase;
using core::TraceRange;

model::Gradients StepRuntime::destinations(int micro, int unit, bool& assign) {
  model::Gradients out;
  const auto at_own = state_.grads.destination(state_.own_group(unit), micro);
  out.own = at_own.whole;
  assign = at_own.assign;
  const int tied = state_.tied_group(unit);
  if (tied < 0) return out;
  const auto at_tied = state_.grads.destination(tied, micro);
  FM_CHECK(at_tied.assign == assign, "both groups of the head are written alike");
  out.tied = at_tied.whole;
  return out;
}

// Looks for the first gradient that is not finite, in the order they are written.
void StepRuntime::scan(int micro, int unit, const model::Gradients& written) {
  if (!watching_ || found_) return;
  const auto look = [&](const core::ParamTable& table, const float* base) {
    for (const core::ParamEntry& entry : table.entries()) {
      const float* const values = base + entry.offset.count();
      for (std::int64_t i = 0; i < entry.numel.count() && !found_; ++i) {
        if (!std::isfinite(values[i])) found_ = NonFinite{micro, unit, entry.name};
      }
    }
  };
  if (written.tied != nullptr) look(*state_.model.head->tied_params(), written.tied);
  look(state_.model.table(unit), written.own);
}

void StepRuntime::count() {
  const TraceRange range(clock_, Phase::kData);
  divisor_ = stream_->count_valid();
  state_.dp->all_reduce({&divisor_, Elements(1), DType::kI64}).wait();
}

void StepRuntime::reduce(int micro, int unit) {
  const TraceRange range(clock_, Phase::kReduce);
  state_.grads.reduce(state_.own_group(unit), micro);
  const int tied = state_.tied_end(unit);
  if (tied >= 0) state_.grads.reduce(tied, micro);
}

void StepRuntime::reduce_tied() {
  const TraceRange range(clock_, Phase::kReduce);
  state_.tied.run(state_.grads);
}

// Slot s = k * dp + r; fp64 tree over slots, divided once, then told to every pipe rank.
void StepRuntime::exchange_loss() {
  const int dp_size = state_.plan.mesh.data;
  const int micros = state_.plan.rules.micros;
  const bool means = request_.loss_reduction == LossReduction::kMeanOfMeans;
  double told[2] = {0.0, 0.0};
  if (row().is_last(state_.at.pipe_rank)) {
    if (forward_only_) count();
    state_.dp
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
    told[0] = core::tree_sum(std::span(by_slot));
    told[1] = static_cast<double>(divisor_);
  }
  state_.pipe->broadcast({told, Elements(2), DType::kF64}, row().pipe_ranks() - 1).wait();
  result_.loss_sum = told[0];
  result_.valid = static_cast<std::int64_t>(told[1]);
  const bool divide = !means && result_.valid > 0;
  result_.loss = divide ? told[0] / told[1] : told[0];
}

void StepRuntime::norm() {
  const TraceRange range(clock_, Phase::kReduce);
  exchange_loss();  // before the update, so that a non-finite loss skips the step everywhere
  result_.grad_norm = std::sqrt(state_.norm.squared(state_.grads));
  result_.skipped = !std::isfinite(result_.grad_norm) || !std::isfinite(result_.loss);
  double scale = 1.0;
  if (request_.gradient_clipping > 0.0) {
    scale = std::min(1.0, request_.gradient_clipping / (result_.grad_norm + 1e-6));
  }
  request_.scalars.grad_scale = static_cast<float>(scale);
}

void StepRuntime::update(int unit) {
  if (result_.skipped || !request_.apply) return;
  const TraceRange range(clock_, Phase::kOptimizer);
  state_.optimizer.update(state_.own_group(unit), request_.scalars, state_.params, state_.grads);
  const int tied = state_.tied_end(unit);
  if (tied >= 0) state_.optimizer.update(tied, request_.scalars, state_.params, state_.grads);
}

void StepRuntime::publish(int unit) {
  if (result_.skipped || !request_.apply) return;
  const TraceRange range(clock_, Phase::kGather);
  state_.params.publish(state_.own_group(unit)).wait();
  const int tied = state_.tied_end(unit);
  if (tied >= 0 && state_.layout.at(tied).alias < 0) state_.params.publish(tied).wait();
}

void StepRuntime::report() {
  if (forward_only_) exchange_loss();
}

}  // namespace fm::engine
