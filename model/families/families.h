// The families, one source each: they turn config.json into a DecoderConfig. Keys and defaults are
// those of transformers, src/transformers/models/*/configuration_*.py. Each throws UserError (10)
// naming the key and what is supported.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

// Calls the reader of the file's model_type.
DecoderConfig read_config(const ConfigReader& file);

DecoderConfig read_llama_config(const ConfigReader& reader);
DecoderConfig read_mistral_config(const ConfigReader& reader);
DecoderConfig read_qwen2_config(const ConfigReader& reader);
DecoderConfig read_qwen3_config(const ConfigReader& reader);
DecoderConfig read_phi3_config(const ConfigReader& reader);
DecoderConfig read_gemma_config(const ConfigReader& reader);
DecoderConfig read_olmo2_config(const ConfigReader& reader);
DecoderConfig read_gpt_neox_config(const ConfigReader& reader);
DecoderConfig read_gptj_config(const ConfigReader& reader);
DecoderConfig read_gpt2_config(const ConfigReader& reader);

}  // namespace fm::model
