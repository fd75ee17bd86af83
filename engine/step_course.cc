#include "engine/step_course.h"

#include <cmath>

#include "core/check.h"

namespace fm::engine {
namespace {

// A dynamic loss scale is still too large: nothing is wrong with the run.
bool looks_for_scale(const TrainOptions& options, const ProgressState& progress,
                     const StepResult& result) {
  return progress.loss_scale && options.loss_scale->fixed == 0.0 && std::isfinite(result.loss);
}

}  // namespace

StepRequest next_request(const TrainOptions& options, const ProgressState& progress) {
  StepRequest request{.step = progress.step + 1, .seed = options.seed};
  const optim::Rates rates =
      optim::rates(options.scheduler, options.optimizer.lr, progress.applied);
  request.scalars.lr = rates.lr;
  request.scalars.betas = rates.betas;
  request.scalars.step = progress.applied + 1;
  request.gradient_clipping = options.gradient_clipping;
  request.loss_reduction = options.loss_reduction;
  if (progress.loss_scale) request.loss_scale = progress.loss_scale->scale;
  request.apply = options.dump_gradients.empty();
  return request;
}

void advance(const TrainOptions& options, const StepResult& result, std::int64_t samples,
             const RunSaves& saves, ProgressState& progress) {
  progress.step += 1;
  progress.samples += samples;
  progress.applied += result.skipped ? 0 : 1;
  progress.skipped += result.skipped ? 1 : 0;
  if (!result.skipped) progress.consecutive_skips = 0;
  if (result.skipped && !looks_for_scale(options, progress, result)) ++progress.consecutive_skips;
  if (!progress.loss_scale) return;
  const optim::LossScaleOptions& scaler = *options.loss_scale;
  FM_MACHINE_CHECK(!result.skipped || !optim::is_at_its_end(scaler, *progress.loss_scale),
                   core::ExitCode::kNumericLimit,
                   "gradients must fit into fp16 at the least loss scale; use bf16 "
                   "(--precision bf16) for a model that was trained in it, or lower the learning "
                   "rate, and ",
                   saves.way_back(), " (step ", progress.step, ", fp16.min_loss_scale ",
                   scaler.least, ", loss ", result.loss, ")");
  progress.loss_scale = optim::next_state(scaler, *progress.loss_scale, result.skipped);
}

void AheadSteps::see(const StepResult& result) {
  asked_ = result.asked;
  unclipped_ = result.skipped || result.clipped ? 0 : unclipped_ + 1;
}

bool AheadSteps::may_end_ahead(std::int64_t step) const {
  if (!possible_ || asked_ || unclipped_ < options_.unclipped_before_ahead) return false;
  const auto due = [&](std::int64_t rhythm) { return rhythm > 0 && step % rhythm == 0; };
  const bool saves = options_.saves && due(options_.save_steps);
  const bool evaluates = evaluates_ && due(options_.eval_steps);
  return !saves && !evaluates && step < options_.train_steps && options_.dump_gradients.empty();
}

}  // namespace fm::engine
