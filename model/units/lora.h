// Where adapters are, by name, and how they begin.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/param_table.h"
#include "model/choices.h"
#include "model/families/decoder_config.h"

namespace fm::model {

// What peft puts before the names of a model's modules.
inline constexpr const char* kPeftPrefix = "base_model.model.";

enum class LoraFactor : std::uint8_t { kA, kB };  // [rank, in] and [out, rank]
// "base_model.model.MODULE.lora_A.weight"
std::string adapter_name(const std::string& module, LoraFactor factor);
bool is_adapter(const std::string& name);

// The targets, with the family's usual ones where none are given and names for kAllLinear. Throws
// UserError (10) for a target that no linear layer of a block has.
std::vector<std::string> targets_of(const DecoderConfig& config, const LoraChoices& lora);
// Whether a module is one of those: its name is one of them or ends in one, behind a point.
bool is_one_of(const std::string& module, const std::vector<std::string>& names);

// As peft begins: A uniform within 1 / sqrt(in), by Philox keyed by (seed, name, element); B zero.
void init_adapter(const core::ParamEntry& entry, std::uint64_t seed, core::Elements first,
                  std::span<float> out);

}  // namespace fm::model
