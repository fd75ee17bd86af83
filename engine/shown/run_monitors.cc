#include "engine/shown/run_monitors.h"

#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/files/output_file.h"
#include "engine/shown/step_profile.h"
#include "machine/limits.h"

namespace fm::engine {

std::vector<monitor::Event> events_of(const StepLine& line, bool with_times) {
  std::vector<monitor::Event> events;
  const auto add = [&](const char* name, double value) {
    events.push_back({core::concat("Train/Samples/", name), value, line.samples});
  };
  const auto add_as_trainer = [&](const char* name, double value) {
    events.push_back({name, value, line.samples});
  };
  if (line.loss) add("train_loss", *line.loss);
  add("lr", line.lr);
  if (line.loss_scale) add("loss_scale", *line.loss_scale);
  if (line.eval_loss) add("eval_loss", *line.eval_loss);
  if (line.loss) add_as_trainer("train/loss", *line.loss);
  add_as_trainer("train/learning_rate", line.lr);
  add_as_trainer("train/grad_norm", line.grad_norm);
  add_as_trainer("train/epoch", line.epoch);
  add_as_trainer("train/tokens_per_second", line.tokens_per_second());
  if (line.eval_loss) {
    add_as_trainer("eval/loss", *line.eval_loss);
    add_as_trainer("eval/perplexity", std::exp(*line.eval_loss));
  }
  if (!with_times) return events;
  const StepParts parts = parts_of(line.phases);
  add("elapsed_time_ms_forward", parts.forward);
  add("elapsed_time_ms_backward", parts.backward());
  add("elapsed_time_ms_backward_inner", parts.backward_inner);
  add("elapsed_time_ms_backward_allreduce", parts.backward_allreduce);
  add("elapsed_time_ms_step", parts.step);
  return events;
}

RunMonitors::RunMonitors(KnownRun run, RunLog& log, bool speaks)
    : run_(std::move(run)), log_(log), speaks_(speaks), writes_(!run_.options.dry_run) {
  const MonitorOptions& options = run_.options.monitors;
  if (!speaks_ || !writes_) return;
  for (const std::string& folder : options.tensorboard) {
    places_.push_back({folder, monitor::tensorboard_in(folder)});
  }
  for (const std::string& folder : options.csv) {
    places_.push_back({folder, monitor::csv_in(folder)});
  }
  prometheus_.path = options.prometheus_file;
}

void RunMonitors::step(const StepLine& line, std::int64_t skipped) {
  if (!speaks_) return;
  const MonitorOptions& options = run_.options.monitors;
  if (!places_.empty()) {
    const std::vector<monitor::Event> events = events_of(line, options.wall_clock);
    for (Output& place : places_) check(place, place.monitor->write(events), line.step);
  }
  if (!prometheus_.path.empty()) {
    const std::string text =
        monitor::prometheus_text(run_.options.output_dir, metrics_of(line, skipped));
    check(prometheus_, core::write_output_file(prometheus_.path, text), line.step);
  }
  const std::int64_t rhythm = run_.options.log_steps;
  const bool due = rhythm > 0 && (line.step % rhythm == 0 || line.step == line.last_step);
  if (due && options.wall_clock) {
    log_.say(wall_clock_text(parts_of(line.phases), run_.plan->batch.accumulation));
  }
  if (due && options.memory) {
    log_.say(memory_text(line.step, machine::resident_memory(), line.mem_peak));
  }
  if (line.step == options.profile_step) print_profile(line);
}

void RunMonitors::check(Output& place, const std::string& problem, std::int64_t step) {
  if (problem.empty() || std::exchange(place.lacks_some, true)) return;
  log_.warn(core::concat(place.path, " lacks values from step ", step,
                         " on, training continues; make it writable, or name another place (",
                         problem, ")"));
}

std::vector<monitor::Metric> RunMonitors::metrics_of(const StepLine& line, std::int64_t skipped) {
  std::vector<monitor::Metric> metrics;
  const auto add = [&](const char* name, const char* help, double value) {
    const bool counts = std::string_view(name).ends_with("_total");
    metrics.push_back({core::concat("fmengine_", name),
                       counts ? monitor::MetricType::kCounter : monitor::MetricType::kGauge, help,
                       value});
  };
  // Of this start: a counter never goes back, and a resume may.
  if (!samples_before_) {
    samples_before_ = line.samples - run_.plan->batch.train_batch;
    skipped_before_ = skipped - (line.skipped ? 1 : 0);
  }
  const auto samples = static_cast<double>(line.samples - *samples_before_);
  const auto seq_len = static_cast<double>(run_.plan->shape.row());
  if (line.eval_loss) eval_loss_ = line.eval_loss;
  add("step", "Finished optimizer steps, skipped ones included.", static_cast<double>(line.step));
  if (line.loss) add("loss", "Training loss of the last step, nats per token.", *line.loss);
  if (eval_loss_) add("eval_loss", "Loss of the last evaluation, nats per token.", *eval_loss_);
  add("learning_rate", "Learning rate of the last step.", line.lr);
  add("grad_norm", "Global norm of the gradients of the last step.", line.grad_norm);
  if (line.loss_scale) add("loss_scale", "Loss scale of the last step.", *line.loss_scale);
  add("tokens_per_second", "Tokens of the last step by its time.", line.tokens_per_second());
  add("memory_bytes", "Resident memory of rank 0.",
      static_cast<double>(machine::resident_memory().count()));
  add("samples_total", "Samples that this start has consumed.", samples);
  add("tokens_total", "Tokens that this start has consumed.", samples * seq_len);
  add("skipped_steps_total", "Steps that changed nothing because a number was not finite.",
      static_cast<double>(skipped - skipped_before_));
  return metrics;
}

void RunMonitors::print_profile(const StepLine& line) {
  const std::string text = flops_profile_text(run_, line);
  const std::string& file = run_.options.monitors.profile_file;
  if (file.empty() || !writes_) return log_.say(text);
  const std::string problem = core::write_output_file(file, text);
  if (problem.empty()) return log_.say("the flops profile is in " + file);
  log_.warn(core::concat("the flops profile could not be written to ", file, " (", problem, ")"));
  log_.say(text);
}

}  // namespace fm::engine
