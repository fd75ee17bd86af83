// GPT-J: one LayerNorm for attention and the plain MLP parallel to it, RoPE on neighbouring pairs
// of a part of each head, and an output head with a bias. transformers,
// models/gptj/modeling_gptj.py.
#pragma once

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline ModuleNames gptj_modules() {
  ModuleNames names;
  names.base = "transformer.";
  names.embedding = "wte";
  names.layers = "h";
  names.final_norm = "ln_f";
  names.norm1 = "ln_1";
  names.q = "attn.q_proj";
  names.k = "attn.k_proj";
  names.v = "attn.v_proj";
  names.out = "attn.out_proj";
  names.up = "mlp.fc_in";
  names.down = "mlp.fc_out";
  return names;
}

inline constexpr SizeKeys kGptjKeys{.hidden = "n_embd",
                                    .ffn = "n_inner",
                                    .layers = "n_layer",
                                    .heads = "n_head",
                                    .positions = "n_positions",
                                    .kv_heads = nullptr};

inline DecoderConfig read_gptj_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "GPT-J";
  config.architecture = "GPTJForCausalLM";
  config.dropout = read_dropout(
      reader, {.attention = "attn_pdrop", .embedding = "embd_pdrop", .residual = "resid_pdrop"});
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.residual = Residual::kParallelOneNorm;
  block.mlp_bias = true;
  block.gated = false;
  block.activation = read_activation(reader, "activation_function", "gelu_new");
  config.names = gptj_modules();
  config.head_bias = true;
  config.derived_suffixes = {".attn.bias", ".attn.masked_bias", ".attn.embed_positions"};
  config.ffn = 0;  // four times as wide
  read_sizes(reader, kGptjKeys, config);
  read_head_dim(reader, 0, config);
  check_total(reader, kGptjKeys, config);
  config.norm_eps = reader.positive_or("layer_norm_epsilon", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.rope.pairs = RopeConfig::Pairs::kNeighbours;
  config.rope.rotary_dim = reader.size_or("rotary_dim", 64);
  FM_USER_CHECK(config.rope.rotary_dim % 2 == 0 && config.rope.rotary_dim <= config.head_dim,
                reader.where("rotary_dim"),
                ": an even number up to n_embd / n_head is required (value ",
                config.rope.rotary_dim, ", n_embd / n_head = ", config.head_dim, ")");
  return config;
}

}  // namespace fm::model
