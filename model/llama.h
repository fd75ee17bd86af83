// Llama as a row of units: embedding, blocks (RMSNorm, GQA attention with RoPE, SwiGLU), head.
// Architecture and parameter names: transformers, models/llama/modeling_llama.py.
#pragma once

#include "model/family.h"
#include "model/llama_config.h"

namespace fm::model {

// Throws UserError (10) naming the key of config.json and what is supported.
OpenedModel open_llama(const ConfigReader& file, const ModelChoices& choices);

// The units alone.
Model make_llama(const LlamaConfig& config, const ModelChoices& choices);

}  // namespace fm::model
