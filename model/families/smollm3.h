// SmolLM3: Llama whose every fourth layer does not rotate queries and keys.
// transformers, models/smollm3/modeling_smollm3.py.
#pragma once

#include "core/check.h"
#include "model/families/decoder_config.h"

namespace fm::model {

// no_rope_layers has a number per layer, 0 where it does not rotate.
inline std::vector<LayerRope> smollm3_ropes(const ConfigReader& reader, std::int64_t layers) {
  std::vector<LayerRope> ropes;
  if (!reader.has("no_rope_layers")) {
    const std::int64_t interval = reader.size_or("no_rope_layer_interval", 4);
    for (std::int64_t layer = 1; layer <= layers; ++layer) {
      ropes.push_back(layer % interval == 0 ? LayerRope::kNone : LayerRope::kMain);
    }
    return ropes;
  }
  for (const double rotates : reader.numbers("no_rope_layers")) {
    ropes.push_back(rotates == 0.0 ? LayerRope::kNone : LayerRope::kMain);
  }
  FM_USER_CHECK(std::ssize(ropes) >= layers, reader.where("no_rope_layers"),
                ": must have one entry per layer (it has ", ropes.size(), ", the model ", layers,
                " layers)");
  ropes.resize(static_cast<std::size_t>(layers));
  return ropes;
}

inline DecoderConfig read_smollm3_config(const ConfigReader& reader) {
  DecoderConfig config;
  config.family = "SmolLM3";
  config.architecture = "SmolLM3ForCausalLM";
  config.max_positions = 32768;
  config.dropout = read_dropout(reader, {});
  config.block.activation = read_activation(reader, "hidden_act", "silu");
  config.block.qkv_bias = reader.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  config.block.mlp_bias = reader.flag_or("mlp_bias", false);
  read_sizes(reader, {.absent_kv_heads = 4}, config);
  read_head_dim(reader, 0, config);
  check_total(reader, {}, config);
  config.norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = reader.positive_or("initializer_range", config.initializer_range);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.pad_id = read_pad_id(reader, config.vocab, reader.is_null("pad_token_id") ? -1 : 128004);
  config.rope = read_rope(reader, config.head_dim, config.max_positions, {.theta = 2000000.0});
  config.layer_ropes = smollm3_ropes(reader, config.layers);
  const bool slides = reader.flag_or("use_sliding_window", false) && reader.has("sliding_window");
  read_windows(
      reader, slides ? reader.size("sliding_window") : 0,
      [&](std::int64_t layer) { return config.rope_of(layer) == LayerRope::kNone; }, config);
  config.lora_targets = {};
  return config;
}

}  // namespace fm::model
