// Qwen 3: heads of their own width, whose queries and keys have a norm, and no biases unless the
// file asks for them. transformers, models/qwen3/modeling_qwen3.py.
#include "model/families/families.h"

namespace fm::model {

DecoderConfig read_qwen3_config(const ConfigReader& at) {
  DecoderConfig config;
  config.family = "Qwen3";
  config.architecture = "Qwen3ForCausalLM";
  config.max_positions = 32768;
  config.dropout = read_dropout(at, {});
  config.block.activation = read_activation(at, "hidden_act", "silu");
  config.block.qk_norm = QkNorm::kPerHead;
  config.block.qkv_bias = at.flag_or("attention_bias", false);
  config.block.out_bias = config.block.qkv_bias;
  read_sizes(at, {.absent_kv_heads = 32}, config);
  read_head_dim(at, 128, config);
  check_total(at, {}, config);
  config.norm_eps = at.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = at.positive_or("initializer_range", config.initializer_range);
  config.tied = at.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(at, config.vocab, -1);
  config.rope = read_rope(at, config.head_dim, config.max_positions);
  const bool slides = at.flag_or("use_sliding_window", false) && !at.is_null("sliding_window");
  read_windows(at, slides ? at.size_or("sliding_window", 4096) : 0,
               at.whole_or("max_window_layers", 28), config);
  return config;
}

}  // namespace fm::model
