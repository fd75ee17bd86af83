// The pipeline's part of command line and JSON: schedule, chunks, cut of the model, times of a
// plan.
#pragma once

#include "cli/deepspeed/ds_check.h"
#include "cli/flags/arguments.h"
#include "cli/flags/flag_values.h"

namespace fm::cli {

// Fills options from the block "pipeline". Throws UserError.
void apply_schedule(const Settings& settings, engine::TrainOptions& options);

// Flags that were given win over the JSON. Reads the file of --schedule FILE.csv. Throws UserError.
void read_pipeline(const FlagValues& flags, engine::TrainOptions& options);

// What --plan says of times and files.
void read_plan(const FlagValues& flags, Command& command);

}  // namespace fm::cli
