// Phi 3: Llama with one matrix for queries, keys and values and one for gate and up, RoPE on a part
// of each head, and longrope. transformers, models/phi3/modeling_phi3.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

inline DecoderConfig read_phi3_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "Phi3";
  config.architecture = "Phi3ForCausalLM";
  config.max_positions = 4096;
  config.dropout =
      read_dropout(reader, {.residual = "resid_pdrop"});  // embd_pdrop has no effect there
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.qkv = QkvMatrix::kStacked;
  config.block.gate_up_stacked = true;
  config.names.q = "self_attn.qkv_proj";
  config.names.gate = "mlp.gate_up_proj";
  read_sizes(reader, {}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-5);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  const std::int64_t pad = reader.is_null("pad_token_id") ? -1 : 32000;
  config.pad_id = read_pad_id(reader, config.vocab, pad);
  config.rope = read_rope(
      reader, config.head_dim, config.max_positions,
      {.share_key = "partial_rotary_factor", .original_positions = 4096, .yarn_is_longrope = true});
  slide_all(reader.has("sliding_window") ? reader.size("sliding_window") : 0, config);
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
