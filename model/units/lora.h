// Names, targets and initial values of LoRA adapters.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/param_table.h"
#include "model/choices.h"
#include "model/families/decoder_config.h"

namespace fm::model {

// The prefix that peft puts before module names.
inline constexpr const char* kPeftPrefix = "base_model.model.";

enum class LoraFactor : std::uint8_t { kA, kB };  // [rank, in] and [out, rank]
// "base_model.model.MODULE.lora_A.weight"
std::string adapter_name(const std::string& module, LoraFactor factor);
bool is_adapter(const std::string& name);
// The MODULE of such a name of either factor, else "".
std::string adapted_module(const std::string& name);

// The targets: the family's defaults where none are given, and all names for kAllLinear. Throws
// UserError (10) for a target that matches no linear layer of a block.
std::vector<std::string> targets_of(const DecoderConfig& config, const LoraChoices& lora);
// Whether the name of a module is one of `names`, or ends in "." and one of them.
bool is_one_of(const std::string& module, const std::vector<std::string>& names);

// Whether some rows of this matrix ("model.embed_tokens.weight") are trained (token_rows.h).
bool has_token_rows(const LoraChoices& lora, const std::string& matrix);

// Initial values as in peft: A uniform within 1 / sqrt(in), by Philox keyed by (seed, name,
// element); B zero.
void init_adapter(const core::ParamEntry& entry, std::uint64_t seed, core::Elements first,
                  std::span<float> out);

}  // namespace fm::model
