// Low-rank adapters: flags by peft's names, FMEngine's block of the JSON, or a PEFT folder.
#pragma once

#include <string>

#include "cli/deepspeed/ds_check.h"
#include "cli/flags/flag_values.h"
#include "engine/options.h"

namespace fm::cli {

// FMEngine's "lora": {"r": 8, "lora_alpha": 16, "lora_dropout": 0.05}; {} is off.
void apply_lora(const Settings& settings, engine::TrainOptions& options);

// Behind the JSON and the model. Where the start of adapters is a PEFT folder, its
// adapter_config.json says what they are; where --init_ckpt is one, its base takes that place.
// Throws UserError: 10 for what does not go together, 11 for a wrong file.
void read_lora(const FlagValues& flags, engine::TrainOptions& options);

// The PEFT folder to use: `adapter`, or `model_folder` itself where that is one, whose base then
// takes its place; "": none. `flag` of the model, for messages. Throws as read_lora does.
std::string split_adapter(std::string& model_folder, const std::string& adapter, const char* flag);
// What adapter_config.json of the folder says; LoraOptions::start is the folder.
engine::LoraOptions read_adapter(const std::string& folder);

}  // namespace fm::cli
