// GPT-2: learned positions, LayerNorm, biases, transposed matrices (Conv1D), one for queries, keys
// and values, a plain MLP, and an embedding that is also the head. transformers,
// models/gpt2/modeling_gpt2.py.
#pragma once

#include <cmath>

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline ModuleNames gpt2_modules() {
  ModuleNames names;
  names.base = "transformer.";
  names.embedding = "wte";
  names.positions = "wpe";
  names.layers = "h";
  names.final_norm = "ln_f";
  names.norm1 = "ln_1";
  names.q = "attn.c_attn";
  names.out = "attn.c_proj";
  names.norm2 = "ln_2";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return names;
}

inline constexpr SizeKeys kGpt2Keys{.hidden = "n_embd",
                                    .ffn = "n_inner",
                                    .layers = "n_layer",
                                    .heads = "n_head",
                                    .positions = "n_positions",
                                    .kv_heads = nullptr};

inline void refuse_other_gpt2_attention(const ConfigReader& reader) {
  FM_USER_CHECK(reader.flag_or("scale_attn_weights", true), reader.where("scale_attn_weights"),
                ": supported is true (value false)");
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    FM_USER_CHECK(!reader.flag_or(key, false), reader.where(key),
                  ": supported is false (value true)");
  }
}

inline DecoderConfig read_gpt2_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "GPT-2";
  config.architecture = "GPT2LMHeadModel";
  config.max_positions = 1024;
  config.dropout = read_dropout(reader, {.attention = "attn_pdrop",
                                         .embedding = "embd_pdrop",
                                         .residual = "resid_pdrop",
                                         .absent = 0.1});
  refuse_other_gpt2_attention(reader);
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.qkv = QkvMatrix::kStacked;
  block.form = MatrixForm::kInOut;
  block.qkv_bias = true;
  block.out_bias = true;
  block.mlp_bias = true;
  block.gated = false;
  block.activation = read_activation(reader, "activation_function", "gelu_new");
  config.names = gpt2_modules();
  config.derived_suffixes = {".attn.bias", ".attn.masked_bias"};
  config.ffn = 0;  // four times as wide
  read_sizes(reader, kGpt2Keys, config);
  read_head_dim(reader, 0, config);
  check_total(reader, kGpt2Keys, config);
  config.norm_eps = reader.positive_or("layer_norm_epsilon", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.residual_initializer_range =
      config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.layers));
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.rope.type = RopeConfig::Type::kNone;
  config.lora_targets = {"c_attn"};
  return config;
}

}  // namespace fm::model
