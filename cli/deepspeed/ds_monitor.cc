#include "cli/deepspeed/ds_monitor.h"

#include <algorithm>
#include <filesystem>

#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::concat;
using engine::TrainOptions;
using Words = std::vector<std::string>;

std::string job_folder(const JsonView& settings, const std::string& block) {
  return inside(settings.text(block + ".output_path", ""),
                settings.text(block + ".job_name", "DeepSpeedJobName"));
}

// Event files for whoever imports them: those of the tensorboard block where it is on.
std::string import_folder(TrainOptions& options) {
  if (options.monitors.tensorboard.empty()) {
    options.monitors.tensorboard.push_back(inside(options.output_dir, "runs"));
  }
  return options.monitors.tensorboard.front();
}

void apply_services(const JsonView& settings, Findings& findings, TrainOptions& options) {
  if (settings.flag("wandb.enabled", false)) {
    findings.notes.push_back(
        concat("wandb.enabled: ",
               import_command(settings.text("wandb.project", "deepspeed"),
                              settings.text("wandb.team", ""), import_folder(options)),
               " (", settings.where("wandb.enabled"), ")"));
  }
  if (settings.flag("comet.enabled", false)) {
    findings.notes.push_back(concat("comet.enabled: ", not_sent("Comet", import_folder(options)),
                                    " (", settings.where("comet.enabled"), ")"));
  }
}

void apply_profile(const JsonView& settings, engine::MonitorOptions& monitors) {
  if (!settings.flag("flops_profiler.enabled", false)) return;
  const std::string path = "flops_profiler.profile_step";
  monitors.profile_step = settings.integer(path, 1);
  FM_USER_CHECK(monitors.profile_step >= 1, path, " must be at least 1; correct it (",
                settings.where(path), ": ", monitors.profile_step, ")");
  monitors.profile_file = settings.text("flops_profiler.output_file", "");
  monitors.wall_clock = true;  // as in DeepSpeed
}

void apply_rhythm(const JsonView& settings, const TrainerArguments& trainer, Findings& findings,
                  TrainOptions& options) {
  const std::string path = "steps_per_print";
  if (settings.get(path) == nullptr) return;
  const std::int64_t steps = settings.integer(path, 1);
  FM_USER_CHECK(steps >= 1, path, " must be at least 1; correct it (", settings.where(path), ": ",
                steps, ")");
  // Templates have 2000 in them, which would silence a short run.
  const std::int64_t most = std::max<std::int64_t>(1, options.train_steps / 10);
  if (!trainer.logging_steps) {
    options.log_steps = std::min(steps, most);
    if (steps > most) {
      findings.notes.push_back(concat(path, " ", steps, ": a line is printed every ",
                                      most == 1 ? "step" : concat(most, " steps"),
                                      ", a tenth of the run (", settings.where(path), ")"));
    }
  } else if (steps != *trainer.logging_steps) {
    findings.notes.push_back(concat("--log_steps ", *trainer.logging_steps, " overrides ", path,
                                    " ", steps, " (", settings.where(path), ")"));
  }
}

}  // namespace

void add_once(std::vector<std::string>& folders, const std::string& folder) {
  if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
}

std::string inside(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// W&B has no interface for C++ and imports event files (docs.wandb.ai, "wandb sync").
std::string import_command(const std::string& project, const std::string& team,
                           const std::string& folder) {
  return concat("nothing is sent to W&B; import the event files after the run: wandb sync ",
                "--sync-tensorboard --project ", project, team.empty() ? "" : " --entity ", team,
                " ", folder);
}

std::string not_sent(const std::string& service, const std::string& folder) {
  return concat("nothing is sent to ", service, ", which has no interface for C++; ", folder,
                " has the same curves as TensorBoard's event files");
}

void apply_monitors(const JsonView& settings, const TrainerArguments& trainer, Findings& findings,
                    TrainOptions& options) {
  engine::MonitorOptions& monitors = options.monitors;
  if (settings.flag("tensorboard.enabled", false)) {
    add_once(monitors.tensorboard, job_folder(settings, "tensorboard"));
  }
  if (settings.flag("csv_monitor.enabled", false)) {
    add_once(monitors.csv, job_folder(settings, "csv_monitor"));
  }
  apply_services(settings, findings, options);
  monitors.wall_clock = settings.flag("wall_clock_breakdown", false);
  monitors.memory = settings.flag("memory_breakdown", false);
  monitors.comms = settings.flag("comms_logger.enabled", false);
  apply_profile(settings, monitors);
  apply_rhythm(settings, trainer, findings, options);
}

}  // namespace fm::cli
