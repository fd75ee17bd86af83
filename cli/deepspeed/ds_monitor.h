// Monitors and breakdowns, from DeepSpeed's JSON and from the Trainer's --report_to.
#pragma once

#include "cli/deepspeed/ds_check.h"
#include "cli/deepspeed/trainer_arguments.h"
#include "cli/flags/flag_values.h"
#include "engine/options.h"

namespace fm::cli {

// --report_to, --logging_dir and --prometheus_file. Reads options.output_dir. Throws UserError
// (10).
void read_reports(const FlagValues& flags, engine::TrainOptions& options);

// The blocks tensorboard, csv_monitor, wandb, comet and flops_profiler, steps_per_print and the
// breakdowns. Throws UserError (10) for numbers out of range.
void apply_monitors(const Settings& settings, const TrainerArguments& trainer, Findings& findings,
                    engine::TrainOptions& options);

}  // namespace fm::cli
