// Falcon: LayerNorm, one matrix for queries, keys and values (with one key and value head in all,
// or one per group of queries), and a plain MLP parallel to attention. transformers,
// models/falcon/modeling_falcon.py.
#pragma once

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline ModuleNames falcon_modules() {
  ModuleNames names;
  names.base = "transformer.";
  names.embedding = "word_embeddings";
  names.layers = "h";
  names.final_norm = "ln_f";
  names.q = "self_attention.query_key_value";
  names.out = "self_attention.dense";
  names.up = "mlp.dense_h_to_4h";
  names.down = "mlp.dense_4h_to_h";
  return names;
}

// n_embed of the first files overrides hidden_size.
inline SizeKeys falcon_keys(const ConfigReader& reader) {
  return {.hidden = reader.has("n_embed") ? "n_embed" : "hidden_size",
          .ffn = "ffn_hidden_size",
          .kv_heads = nullptr};
}

// The residual, the norms and the key and value heads follow from several keys.
inline void read_falcon_architecture(const ConfigReader& reader, DecoderConfig& config) {
  BlockConfig& block = config.block;
  const bool grouped = reader.flag_or("new_decoder_architecture", false);
  const bool parallel = reader.flag_or("parallel_attn", true);
  FM_USER_CHECK(parallel || !grouped, reader.where("parallel_attn"),
                ": new_decoder_architecture needs true (value false)");
  const std::int64_t norms = reader.size_or("num_ln_in_parallel_attn", grouped ? 2 : 1);
  FM_USER_CHECK(norms == 1 || (grouped && norms == 2), reader.where("num_ln_in_parallel_attn"),
                ": 1 is required, or 2 with new_decoder_architecture (value ", norms, ")");
  block.residual = Residual::kSequential;
  if (parallel) block.residual = norms == 2 ? Residual::kParallel : Residual::kParallelOneNorm;
  if (norms == 2) {
    config.names.norm1 = "ln_attn";
    config.names.norm2 = "ln_mlp";
  }
  const bool one = !grouped && reader.flag_or("multi_query", true);
  block.qkv = one ? QkvMatrix::kStacked : QkvMatrix::kPerHead;
  const std::int64_t named = reader.size_or("num_kv_heads", config.heads);
  config.kv_heads = one ? 1 : named;
  FM_USER_CHECK(config.heads % config.kv_heads == 0 && (one || grouped || named == config.heads),
                reader.where("num_kv_heads"),
                ": must divide num_attention_heads, or be the same without "
                "new_decoder_architecture (num_kv_heads=",
                named, ", num_attention_heads=", config.heads, ")");
}

inline DecoderConfig read_falcon_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Falcon";
  config.architecture = "FalconForCausalLM";
  FM_USER_CHECK(!reader.flag_or("alibi", false), reader.where("alibi"),
                ": supported is false; ALiBi is not there yet (value true)");
  // transformers drops no probabilities of attention where there is no ALiBi.
  for (const char* key : {"hidden_dropout", "attention_dropout"}) {
    const double dropped = reader.number_or(key, 0.0);
    FM_USER_CHECK(dropped == 0.0, reader.where(key), ": supported is 0; set it (value ", dropped,
                  ")");
  }
  BlockConfig& block = config.block;
  block.norm = NormKind::kLayer;
  block.qkv_bias = reader.flag_or("bias", false);
  block.out_bias = block.qkv_bias;
  block.mlp_bias = block.qkv_bias;
  block.gated = false;
  block.activation = read_activation(reader, "activation", "gelu");
  config.names = falcon_modules();
  config.ffn = 0;  // four times as wide
  const SizeKeys keys = falcon_keys(reader);
  read_sizes(reader, keys, config);
  read_falcon_architecture(reader, config);
  read_head_dim(reader, 0, config);
  check_total(reader, keys, config);
  config.norm_eps = reader.positive_or("layer_norm_epsilon", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  config.lora_targets = {"query_key_value"};
  return config;
}

}  // namespace fm::model
