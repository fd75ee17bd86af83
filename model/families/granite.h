// Granite: Llama with a multiplier of the embedding, of scores, of what attention and MLP add, and
// a divisor of logits. transformers, models/granite/modeling_granite.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_granite_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Granite";
  config.architecture = "GraniteForCausalLM";
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  config.block.mlp_bias = reader.flag_or("mlp_bias", false);
  read_sizes(reader, {}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.embedding_scale = reader.positive_or("embedding_multiplier", 1.0);
  config.attention_scale = reader.positive_or("attention_multiplier", 1.0);
  config.residual_scale = reader.positive_or("residual_multiplier", 1.0);
  config.logits_scale = 1.0 / reader.positive_or("logits_scaling", 1.0);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
