// Llama: RMSNorm, grouped-query attention with RoPE, SwiGLU, biases where config.json has them.
// transformers, models/llama/modeling_llama.py.
#pragma once

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_llama_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  read_sizes(reader, {}, config);
  // Our arithmetic would allow it where head_dim is given.
  FM_USER_CHECK(config.hidden % config.heads == 0, reader.where("num_attention_heads"),
                ": must divide hidden_size, otherwise transformers does not load what is exported "
                "(num_attention_heads=",
                config.heads, ", hidden_size=", config.hidden, ")");
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  config.block.mlp_bias = reader.flag_or("mlp_bias", false);
  config.norm_eps = reader.positive_or("rms_norm_eps", config.norm_eps);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  return config;
}

}  // namespace fm::model
