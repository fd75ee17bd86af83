// Monitors and breakdowns of DeepSpeed's JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/deepspeed/ds_check.h"
#include "cli/deepspeed/trainer_arguments.h"
#include "engine/options.h"

namespace fm::cli {

// Adds the folder of a monitor where it is not there yet.
void add_once(std::vector<std::string>& folders, const std::string& folder);
// FOLDER/NAME.
std::string inside(const std::string& folder, const std::string& name);
// What a note says of W&B, and of any other service.
std::string import_command(const std::string& project, const std::string& team,
                           const std::string& folder);
std::string not_sent(const std::string& service, const std::string& folder);

// The blocks tensorboard, csv_monitor, wandb, comet and flops_profiler, steps_per_print and the
// breakdowns. Throws UserError (10) for numbers out of range.
void apply_monitors(const JsonView& settings, const TrainerArguments& trainer, Findings& findings,
                    engine::TrainOptions& options);

}  // namespace fm::cli
