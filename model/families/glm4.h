// GLM-4: norms on both sides of attention and MLP, one matrix for gate and up, RoPE on neighbouring
// pairs of half of each head. transformers, models/glm4/modeling_glm4.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_glm4_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "GLM-4";
  config.architecture = "Glm4ForCausalLM";
  config.max_positions = 131072;
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.norm_place = NormPlace::kBoth;
  config.block.gate_up_stacked = true;
  config.block.qkv_bias = reader.flag_or("attention_bias", true);
  config.names.norm1_after = "post_self_attn_layernorm";
  config.names.norm2_after = "post_mlp_layernorm";
  config.names.gate = "mlp.gate_up_proj";
  read_sizes(reader, {.absent_kv_heads = 2}, config);
  read_head_dim(reader, 128, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1.5625e-7);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 151329);
  config.rope = read_rope(reader, config.head_dim, config.max_positions,
                          {.share_key = "partial_rotary_factor", .share = 0.5});
  config.rope.pairs = RopeConfig::Pairs::kNeighbours;
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
