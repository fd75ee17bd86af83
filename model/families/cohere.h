// Cohere (Command R): one LayerNorm without a bias for attention and the gated MLP parallel to it,
// RoPE on neighbouring pairs, scaled logits of the embedding. transformers,
// models/cohere/modeling_cohere.py.
#pragma once

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_cohere_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Cohere";
  config.architecture = "CohereForCausalLM";
  config.max_positions = 8192;
  config.dropout = read_dropout(reader, {});
  FM_USER_CHECK(!reader.flag_or("use_qk_norm", false), reader.where("use_qk_norm"),
                ": supported is false; weights per head are not there yet (value true)");
  config.block.norm = NormKind::kLayerNoBias;
  config.block.residual = Residual::kParallelOneNorm;
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  read_sizes(reader, {}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.logits_scale = reader.positive_or("logit_scale", 0.0625);
  config.norm_eps = reader.positive_or("layer_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 0);
  config.rope = read_rope(reader, config.head_dim, config.max_positions, {.theta = 500000.0});
  config.rope.pairs = RopeConfig::Pairs::kNeighbours;
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
