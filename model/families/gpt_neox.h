// GPT-NeoX (Pythia): LayerNorm, biases, one matrix for the query, key and value of each head, RoPE
// on a part of each head, and a plain MLP parallel to attention. transformers,
// models/gpt_neox/modeling_gpt_neox.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline ModuleNames gpt_neox_modules() {
  ModuleNames names;
  names.base = "gpt_neox.";
  names.embedding = "embed_in";
  names.final_norm = "final_layer_norm";
  names.head = "embed_out";
  names.q = "attention.query_key_value";
  names.out = "attention.dense";
  names.up = "mlp.dense_h_to_4h";
  names.down = "mlp.dense_4h_to_h";
  return names;
}

inline DecoderConfig read_gpt_neox_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "GPT-NeoX";
  config.architecture = "GPTNeoXForCausalLM";
  config.dropout =
      read_dropout(reader, {.embedding = "hidden_dropout", .residual = "hidden_dropout"});
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.residual =
      reader.flag_or("use_parallel_residual", true) ? Residual::kParallel : Residual::kSequential;
  block.qkv = QkvMatrix::kPerHead;
  block.qkv_bias = reader.flag_or("attention_bias", true);
  block.out_bias = block.qkv_bias;
  block.mlp_bias = true;
  block.gated = false;
  block.activation = read_activation(reader, "hidden_act", "gelu");
  config.names = gpt_neox_modules();
  config.other_names = {{"lm_head.weight", "embed_out.weight"}};
  config.derived_suffixes = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"};
  read_sizes(reader, {.kv_heads = nullptr}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("layer_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.rope =
      read_rope(reader, config.head_dim, config.max_positions,
                {.theta_key = "rotary_emb_base", .share_key = "rotary_pct", .share = 0.25});
  config.lora_targets = {"query_key_value"};
  return config;
}

}  // namespace fm::model
