// Low-rank adapters: flags by peft's names.
#pragma once

#include "cli/flags/flag_values.h"
#include "engine/options.h"

namespace fm::cli {

// Behind the JSON and the model. Where the start of adapters is a PEFT folder, its
// adapter_config.json says what they are; where --init_ckpt is one, its base takes that place.
// Throws UserError: 10 for what does not go together, 11 for a wrong file.
void read_lora(const FlagValues& flags, engine::TrainOptions& options);

}  // namespace fm::cli
