// Ministral 3: Llama with heads of their own width, and queries that grow with the logarithm of
// their position. transformers, models/ministral3/modeling_ministral3.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline RopeConfig read_ministral3_rope(const ConfigReader& reader, std::int64_t head_dim,
                                       std::int64_t max_positions) {
  if (reader.has("rope_parameters") || reader.has("rope_scaling")) {
    return read_rope(reader, head_dim, max_positions, {.scales_queries = true});
  }
  return {.type = RopeConfig::Type::kYarn,
          .theta = 1000000.0,
          .rotary_dim = head_dim,
          .factor = 16.0,
          .original_max_position_embeddings = 16384,
          .query_beta = 0.1};
}

inline DecoderConfig read_ministral3_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Ministral 3";
  config.architecture = "Ministral3ForCausalLM";
  config.max_positions = 262144;
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  read_sizes(reader, {.absent_kv_heads = 8}, config);
  read_head_dim(reader, reader.is_null("head_dim") ? 0 : 128, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 11);
  config.rope = read_ministral3_rope(reader, config.head_dim, config.max_positions);
  slide_all(reader.has("sliding_window") ? reader.size("sliding_window") : 0, config);
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
