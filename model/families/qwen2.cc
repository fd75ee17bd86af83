// Qwen 2 and 2.5: Llama with biases of queries, keys and values, and a sliding window of the later
// layers where the file asks for it. transformers, models/qwen2/modeling_qwen2.py.
#include "model/families/families.h"

namespace fm::model {

DecoderConfig read_qwen2_config(const ConfigReader& at) {
  DecoderConfig config;
  config.family = "Qwen2";
  config.architecture = "Qwen2ForCausalLM";
  config.max_positions = 32768;
  config.dropout = read_dropout(at, {});
  config.block.activation = read_activation(at, "hidden_act", "silu");
  config.block.qkv_bias = true;
  read_sizes(at, {.absent_kv_heads = 32}, config);
  read_head_dim(at, 0, config);
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
