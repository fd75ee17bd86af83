// OLMo 2: norms of the outputs of attention and MLP, and of all queries and all keys of a token.
// transformers, models/olmo2/modeling_olmo2.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

// What OLMo 3 has, too.
inline DecoderConfig olmo2_without_rope(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "OLMo2";
  config.architecture = "Olmo2ForCausalLM";
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.norm_place = NormPlace::kAfter;
  config.block.qk_norm = QkNorm::kAllHeads;
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  config.names.norm1_after = "post_attention_layernorm";
  config.names.norm2_after = "post_feedforward_layernorm";
  read_sizes(reader, {}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 1);
  config.lora_targets = {};
  return config;
}

inline DecoderConfig read_olmo2_config(const ConfigReader& reader) {
  DecoderConfig config = olmo2_without_rope(reader);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  return config;
}

}  // namespace fm::model
