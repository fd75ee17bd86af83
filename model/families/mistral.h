// Mistral: Llama with a sliding window. transformers, models/mistral/modeling_mistral.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_mistral_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Mistral";
  config.architecture = "MistralForCausalLM";
  config.max_positions = 131072;
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  read_sizes(reader, {.absent_kv_heads = 8}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  // For a file with layer_types transformers' AutoModel makes a Ministral, which has these windows.
  // A null window is off; an absent one is the 4096 of transformers.
  const std::int64_t window =
      reader.is_null("sliding_window") ? 0 : reader.size_or("sliding_window", 4096);
  read_windows(
      reader, window, [](std::int64_t) { return true; }, config);
  return config;
}

}  // namespace fm::model
