// Seed-OSS: Llama with heads of their own width, biases of queries, keys and values, and dropout of
// what attention and MLP add. transformers, models/seed_oss/modeling_seed_oss.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_seed_oss_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Seed-OSS";
  config.architecture = "SeedOssForCausalLM";
  config.max_positions = 524288;
  config.dropout = read_dropout(reader, {.residual = "residual_dropout", .absent = 0.1});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.qkv_bias = reader.flag_or("attention_bias", true);
  config.block.out_bias = reader.flag_or("attention_out_bias", false);
  config.block.mlp_bias = reader.flag_or("mlp_bias", false);
  read_sizes(reader, {.absent_kv_heads = 8}, config);
  read_head_dim(reader, reader.is_null("head_dim") ? 0 : 128, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
