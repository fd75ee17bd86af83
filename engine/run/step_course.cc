#include "engine/run/step_course.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"

namespace fm::engine {
namespace {

// A dynamic loss scale is still too large: nothing is wrong with the run.
bool looks_for_scale(const TrainOptions& options, const ProgressState& progress,
                     const StepResult& result) {
  return progress.loss_scale && options.loss_scale->fixed == 0.0 && std::isfinite(result.loss);
}

// Of the step after those that `progress` counts, which waits for its norm.
StepRequest request_of(const TrainOptions& options, const ProgressState& progress) {
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

}  // namespace

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

StepLine line_of(const TimedStep& step, const TrainOptions& options, const RunPlan& plan,
                 const ProgressState& progress) {
  const StepResult& result = step.result;
  StepLine line;
  line.step = progress.step;
  line.last_step = options.train_steps;
  line.loss = result.valid > 0 ? std::optional(result.loss) : std::nullopt;
  line.lr = step.request.scalars.lr;
  line.grad_norm = result.grad_norm;
  line.tokens = plan.tokens_per_step();
  line.step_time_s = step.seconds;
  line.phases = step.phases;
  line.mem_peak = step.mem_peak;
  line.device_memory = step.device_memory;
  line.minor_faults = step.minor_faults;
  line.moved = step.moved;
  if (step.request.speculative) line.redone = result.redone;
  line.flops = plan.flops_per_step();
  line.skipped = result.skipped;
  line.samples = progress.samples;
  if (progress.loss_scale) line.loss_scale = step.request.loss_scale;
  return line;
}

std::string untrained_text(const data::SampleSource& rows, const ProgressState& progress,
                           std::int64_t samples) {
  constexpr std::int64_t kNamed = 4;
  std::string names;
  for (std::int64_t at = 0; at < std::min(samples, kNamed); ++at) {
    names += (at == 0 ? "" : "; ") + rows.name_of(progress.samples - samples + at);
  }
  return core::concat("step ", progress.step, " trains nothing: none of its rows has a label that ",
                      "counts (", names, samples > kNamed ? "; ..." : "", ")");
}

StepRequest SpeculativeSteps::next_request(const ProgressState& progress, bool saving) const {
  constexpr std::int64_t kSaveRhythm = 4;
  StepRequest request = request_of(options_, progress);
  request.speculative = may_speculate(request.step) && !(saving && request.step % kSaveRhythm == 0);
  request.stop_requested = [from = signals_] { return from != nullptr && from->waits(); };
  return request;
}

std::optional<TimedStep> SpeculativeSteps::take_validated(StepRuntime& runtime,
                                                          const data::BatchStream& rows) {
  std::optional<TimedStep> last = std::exchange(last_, std::nullopt);
  if (!last) return std::nullopt;
  last->result =
      runtime.validate_step(rows, {.step = last->request.step + 1, .seed = options_.seed});
  return last;
}

void SpeculativeSteps::see(const StepResult& result) {
  stop_requested_ = result.stop_requested;
  unclipped_ = result.skipped || result.clipped ? 0 : unclipped_ + 1;
}

bool SpeculativeSteps::may_speculate(std::int64_t step) const {
  if (!possible_ || stop_requested_ || unclipped_ < options_.unclipped_before_ahead) return false;
  const auto due = [&](std::int64_t rhythm) { return rhythm > 0 && step % rhythm == 0; };
  const bool saves = options_.saves && due(options_.save_steps);
  const bool evaluates = evaluates_ && due(options_.eval_steps);
  return !saves && !evaluates && step < options_.train_steps && options_.dump_gradients.empty();
}

}  // namespace fm::engine
