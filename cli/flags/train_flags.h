// Groups of fmengine-train's flags that no row of cli/flags/flags.cc reads alone: data, adapters,
// the pipeline, and those of Hugging Face's Trainer.
#pragma once

#include "cli/deepspeed/trainer_arguments.h"
#include "cli/flags/arguments.h"
#include "cli/flags/flag_values.h"
#include "engine/options.h"

namespace fm::cli {

// Throws UserError (10).
void read_data(const FlagValues& flags, engine::TrainOptions& options);

// Low-rank adapters: flags by peft's names.

// Behind the JSON and the model. Where the start of adapters is a PEFT folder, its
// adapter_config.json says what they are; where --init_ckpt is one, its base takes that place.
// Throws UserError: 10 for what does not go together, 11 for a wrong file.
void read_lora(const FlagValues& flags, engine::TrainOptions& options);

// The pipeline's flags: schedule, chunks, cut of the model, times of a plan.

// Flags that were given win over the JSON. Reads the file of --schedule FILE.csv. Throws UserError.
void read_pipeline(const FlagValues& flags, engine::TrainOptions& options);

// What --plan says of times and files.
void read_plan(const FlagValues& flags, Command& command);

// Flags of Hugging Face's Trainer.

// Throws UserError (10) for numbers out of range.
TrainerArguments read_trainer_arguments(const FlagValues& flags);

// --report_to, --logging_dir and --prometheus_file. Reads options.output_dir. Throws UserError
// (10).
void read_reports(const FlagValues& flags, engine::TrainOptions& options);

}  // namespace fm::cli
