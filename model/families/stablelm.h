// StableLM: LayerNorm, SwiGLU, RoPE on a quarter of each head; the MLP after attention, or both on
// one norm. transformers, models/stablelm/modeling_stablelm.py.
#pragma once

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_stablelm_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "StableLM";
  config.architecture = "StableLmForCausalLM";
  config.max_positions = 4096;
  config.dropout = read_dropout(reader, {});
  FM_USER_CHECK(!reader.flag_or("qk_layernorm", false), reader.where("qk_layernorm"),
                ": supported is false; weights per head are not there yet (value true)");
  const double dropped = reader.number_or("hidden_dropout", 0.0);
  FM_USER_CHECK(dropped == 0.0, reader.where("hidden_dropout"),
                ": supported is 0; dropout of the MLP alone is not there yet (value ", dropped,
                ")");
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.residual = reader.flag_or("use_parallel_residual", false) ? Residual::kParallelOneNorm
                                                                  : Residual::kSequential;
  block.qkv_bias = reader.flag_or("use_qkv_bias", false);
  block.activation = read_activation(reader, "hidden_act", "silu");
  read_sizes(reader, {.absent_kv_heads = 32}, config);
  read_head_dim(reader, 0, config);
  FM_USER_CHECK(config.head_dim * config.heads == config.hidden, reader.where("head_dim"),
                ": must be hidden_size / num_attention_heads; leave it out (value ",
                config.head_dim, ")");
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("layer_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions,
                          {.share_key = "partial_rotary_factor", .share = 0.25});
  return config;
}

}  // namespace fm::model
