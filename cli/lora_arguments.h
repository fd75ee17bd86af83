// Low-rank adapters: flags by peft's names, FMEngine's block of the JSON, or a PEFT folder.
#pragma once

#include "cli/ds_check.h"
#include "cli/flag_values.h"
#include "engine/options.h"

namespace fm::cli {

// FMEngine's "lora": {"r": 8, "lora_alpha": 16, "lora_dropout": 0.05}; {} is off.
void apply_lora(const Settings& settings, engine::TrainOptions& options);

// Behind the JSON and the model. Where the start of adapters is a PEFT folder, its
// adapter_config.json says what they are; where --init_ckpt is one, its base takes that place.
// Throws UserError: 10 for what does not go together, 11 for a wrong file.
void read_lora(const FlagValues& flags, engine::TrainOptions& options);

}  // namespace fm::cli
