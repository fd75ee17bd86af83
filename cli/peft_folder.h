// A PEFT folder of low-rank adapters: what its adapter_config.json says.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options.h"

namespace fm::cli {

inline constexpr std::int64_t kMostLoraRank = 1 << 16;

// Throws UserError (10) for numbers out of range; `where` says where they stand.
void check_lora(const engine::LoraOptions& lora, const std::string& where);

// The PEFT folder to use: `adapter`, or `model_folder` itself where that is one, whose base then
// takes its place; "": none. `flag` of the model, for messages. Throws UserError: 10 for what does
// not go together, 11 for a wrong file.
std::string split_adapter(std::string& model_folder, const std::string& adapter, const char* flag);
// What adapter_config.json of the folder says; LoraOptions::start is the folder. Throws as
// split_adapter does.
engine::LoraOptions read_adapter(const std::string& folder);

}  // namespace fm::cli
