// Gemma 2: Gemma with norms on both sides of attention and MLP, windows in every other layer,
// scores and logits that are capped. transformers, models/gemma2/modeling_gemma2.py.
#pragma once

#include <cmath>

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

// What Gemma 2 and 3 share: all but windows, rotary parameters and caps.
inline DecoderConfig gemma2_base(const ConfigReader& reader, const SizeKeys& sizes,
                                 std::int64_t max_positions) {
  DecoderConfig config;
  config.max_positions = max_positions;
  config.dropout = read_dropout(reader, {});
  FM_USER_CHECK(!reader.flag_or("use_bidirectional_attention", false),
                reader.where("use_bidirectional_attention"), ": supported is false (value true)");
  config.block.norm = NormKind::kRmsOnePlus;
  config.block.norm_place = NormPlace::kBoth;
  config.block.activation = read_activation(reader, "hidden_activation", "gelu_pytorch_tanh");
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  config.names.norm1_after = "post_attention_layernorm";
  config.names.norm2 = "pre_feedforward_layernorm";
  config.names.norm2_after = "post_feedforward_layernorm";
  read_sizes(reader, sizes, config);
  FM_USER_CHECK(config.hidden % config.heads == 0, reader.where("num_attention_heads"),
                ": must divide hidden_size, otherwise transformers does not load what is exported "
                "(num_attention_heads=",
                config.heads, ", hidden_size=", config.hidden, ")");
  read_head_dim(reader, 256, config);
  check_total(reader, {}, config);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.attention_scale = 1.0 / std::sqrt(reader.positive_or("query_pre_attn_scalar", 256.0));
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 0);
  return config;
}

// Null: no cap.
inline double gemma_cap(const ConfigReader& reader, const char* key, double absent) {
  return reader.is_null(key) ? 0.0 : reader.positive_or(key, absent);
}

inline std::int64_t gemma_window(const ConfigReader& reader) {
  return reader.is_null("sliding_window") ? 0 : reader.size_or("sliding_window", 4096);
}

inline DecoderConfig read_gemma2_config(const ConfigReader& reader) {
  DecoderConfig config = gemma2_base(reader, {.absent_kv_heads = 4}, 8192);
  config.family = "Gemma 2";
  config.architecture = "Gemma2ForCausalLM";
  config.attention_softcap = gemma_cap(reader, "attn_logit_softcapping", 50.0);
  config.logits_softcap = gemma_cap(reader, "final_logit_softcapping", 30.0);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  read_pattern_windows(reader, gemma_window(reader), 2, config);
  return config;
}

}  // namespace fm::model
