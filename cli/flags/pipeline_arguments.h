// The pipeline's flags: schedule, chunks, cut of the model, times of a plan.
#pragma once

#include "cli/flags/arguments.h"
#include "cli/flags/flag_values.h"

namespace fm::cli {

// Flags that were given win over the JSON. Reads the file of --schedule FILE.csv. Throws UserError.
void read_pipeline(const FlagValues& flags, engine::TrainOptions& options);

// What --plan says of times and files.
void read_plan(const FlagValues& flags, Command& command);

}  // namespace fm::cli
