// The families, each in its file: config.json becomes the values of a decoder. Keys and defaults:
// transformers, src/transformers/models/*/configuration_*.py. Each throws UserError (10) naming
// the key and what is supported.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

// By the model_type of the file.
DecoderConfig read_config(const ConfigReader& file);

DecoderConfig read_llama_config(const ConfigReader& at);
DecoderConfig read_mistral_config(const ConfigReader& at);
DecoderConfig read_qwen2_config(const ConfigReader& at);
DecoderConfig read_qwen3_config(const ConfigReader& at);
DecoderConfig read_phi3_config(const ConfigReader& at);
DecoderConfig read_gemma_config(const ConfigReader& at);
DecoderConfig read_olmo2_config(const ConfigReader& at);
DecoderConfig read_gpt_neox_config(const ConfigReader& at);
DecoderConfig read_gptj_config(const ConfigReader& at);
DecoderConfig read_gpt2_config(const ConfigReader& at);

}  // namespace fm::model
