// Mistral: Llama with a sliding window. transformers, models/mistral/modeling_mistral.py.
#include "model/families/families.h"

namespace fm::model {

DecoderConfig read_mistral_config(const ConfigReader& at) {
  DecoderConfig config;
  config.family = "Mistral";
  config.architecture = "MistralForCausalLM";
  config.max_positions = 131072;
  config.dropout = read_dropout(at, {});
  config.block.activation = read_activation(at, "hidden_act", "silu");
  read_sizes(at, {.absent_kv_heads = 8}, config);
  read_head_dim(at, 0, config);
  check_total(at, {}, config);
  config.norm_eps = at.positive_or("rms_norm_eps", 1e-6);
  config.initializer_range = at.positive_or("initializer_range", config.initializer_range);
  config.tied = at.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(at, config.vocab, -1);
  config.rope = read_rope(at, config.head_dim, config.max_positions);
  // With layer_types transformers' AutoModel makes a Ministral of the file, whose windows these
  // are. Set to null it is off; left out it is the 4096 of transformers.
  const std::int64_t window = at.is_null("sliding_window") ? 0 : at.size_or("sliding_window", 4096);
  read_windows(at, window, 0, config);
  return config;
}

}  // namespace fm::model
