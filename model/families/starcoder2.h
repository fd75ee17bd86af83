// StarCoder 2: LayerNorm, biases, grouped queries with a window, and a plain MLP.
// transformers, models/starcoder2/modeling_starcoder2.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_starcoder2_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "StarCoder2";
  config.architecture = "Starcoder2ForCausalLM";
  config.max_positions = 4096;
  config.dropout =
      read_dropout(reader, {.embedding = "embedding_dropout", .residual = "residual_dropout"});
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.qkv_bias = reader.flag_or("use_bias", true);
  block.out_bias = block.qkv_bias;
  block.mlp_bias = block.qkv_bias;
  block.gated = false;
  block.activation = read_activation(reader, "hidden_act", "gelu_pytorch_tanh");
  config.names.up = "mlp.c_fc";
  config.names.down = "mlp.c_proj";
  read_sizes(reader, {.absent_kv_heads = 2}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("norm_epsilon", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", 0.018042);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  slide_all(reader.has("sliding_window") ? reader.size("sliding_window") : 0, config);
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
