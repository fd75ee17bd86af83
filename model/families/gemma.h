// Gemma: norms that multiply by 1 + weight, a scaled embedding that is also the head, GELU, heads
// of their own width. transformers, models/gemma/modeling_gemma.py.
#pragma once

#include <cmath>

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_gemma_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Gemma";
  config.architecture = "GemmaForCausalLM";
  config.max_positions = 8192;
  config.dropout = read_dropout(reader, {});
  FM_USER_CHECK(!reader.flag_or("use_bidirectional_attention", false),
                reader.where("use_bidirectional_attention"), ": supported is false (value true)");
  config.block.norm = NormKind::kRmsOnePlus;
  // The first files say "gelu" and mean its tanh approximation.
  const bool legacy = reader.text_or("hidden_act", "") == "gelu";
  config.block.activation = legacy ? kernels::Activation::kGeluTanh
                                   : read_activation(reader, "hidden_act", "gelu_pytorch_tanh");
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  read_sizes(reader, {.absent_kv_heads = 16}, config);
  read_head_dim(reader, 256, config);
  check_total(reader, {}, config);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 0);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  return config;
}

}  // namespace fm::model
