// EXAONE 4: norms of the outputs of attention and MLP, and of queries and keys; where some layers
// have a window, only these rotate. transformers, models/exaone4/modeling_exaone4.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_exaone4_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "EXAONE 4";
  config.architecture = "Exaone4ForCausalLM";
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.norm_place = NormPlace::kAfter;
  config.block.qk_norm = QkNorm::kPerHead;
  config.names.norm1_after = "post_attention_layernorm";
  config.names.norm2_after = "post_feedforward_layernorm";
  read_sizes(reader, {.absent_kv_heads = 32}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  config.lora_targets = {};
  if (reader.is_null("sliding_window")) {
    read_windows(reader, 0, nullptr, config);
    return config;
  }
  // The pattern may be a word where layer_types says the same.
  const bool types = reader.has("layer_types");
  read_pattern_windows(reader, reader.size_or("sliding_window", 4096),
                       types ? 1 : reader.size_or("sliding_window_pattern", 4), config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    config.layer_ropes.push_back(config.slides(layer) ? LayerRope::kMain : LayerRope::kNone);
  }
  return config;
}

}  // namespace fm::model
