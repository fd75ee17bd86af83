// Flags of Hugging Face's Trainer.
#pragma once

#include "cli/deepspeed/trainer_arguments.h"
#include "cli/flags/flag_values.h"
#include "engine/options.h"

namespace fm::cli {

// Throws UserError (10) for numbers out of range.
TrainerArguments read_trainer_arguments(const FlagValues& flags);

// --report_to, --logging_dir and --prometheus_file. Reads options.output_dir. Throws UserError
// (10).
void read_reports(const FlagValues& flags, engine::TrainOptions& options);

}  // namespace fm::cli
