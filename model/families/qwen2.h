// Qwen 2 and 2.5: Llama with biases of queries, keys and values, and a sliding window in the later
// layers where config.json has one. transformers, models/qwen2/modeling_qwen2.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_qwen2_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Qwen2";
  config.architecture = "Qwen2ForCausalLM";
  config.max_positions = 32768;
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.qkv_bias = true;
  read_sizes(reader, {.absent_kv_heads = 32}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, -1);
  config.rope = read_rope(reader, config.head_dim, config.max_positions);
  const bool slides =
      reader.flag_or("use_sliding_window", false) && !reader.is_null("sliding_window");
  const std::int64_t first = reader.whole_or("max_window_layers", 28);
  read_windows(
      reader, slides ? reader.size_or("sliding_window", 4096) : 0,
      [=](std::int64_t layer) { return layer >= first; }, config);
  return config;
}

}  // namespace fm::model
