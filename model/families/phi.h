// Phi 1 and 2: one LayerNorm for attention and the plain MLP parallel to it, biases everywhere, and
// RoPE on a part of each head. transformers, models/phi/modeling_phi.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline ModuleNames phi_modules() {
  ModuleNames names;
  names.final_norm = "final_layernorm";
  names.q_norm = "self_attn.q_layernorm";
  names.k_norm = "self_attn.k_layernorm";
  names.out = "self_attn.dense";
  names.up = "mlp.fc1";
  names.down = "mlp.fc2";
  return names;
}

inline DecoderConfig read_phi_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Phi";
  config.architecture = "PhiForCausalLM";
  config.dropout = read_dropout(reader, {.embedding = "embd_pdrop", .residual = "resid_pdrop"});
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.residual = Residual::kParallelOneNorm;
  block.qk_norm = reader.flag_or("qk_layernorm", false) ? QkNorm::kPerHead : QkNorm::kNone;
  block.qkv_bias = true;
  block.out_bias = true;
  block.mlp_bias = true;
  block.gated = false;
  block.activation = read_activation(reader, "hidden_act", "gelu_new");
  config.names = phi_modules();
  config.head_bias = true;
  read_sizes(reader, {}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("layer_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions,
                          {.share_key = "partial_rotary_factor", .share = 0.5});
  config.lora_targets = {"q_proj", "v_proj", "fc1", "fc2"};
  return config;
}

}  // namespace fm::model
