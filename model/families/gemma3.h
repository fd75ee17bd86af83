// The text model of Gemma 3: Gemma 2 with norms of queries and keys instead of capped scores, five
// layers with a window to each without, and rotary parameters of their own for these.
// transformers, models/gemma3/modeling_gemma3.py.
#pragma once

#include "model/families/gemma2.h"

namespace fm::model {

inline DecoderConfig read_gemma3_text_config(const ConfigReader& reader) {
  // Published folders with a tower of images leave out what is the default.
  const SizeKeys sizes{.absent_kv_heads = 4, .absent_vocab = 262208, .absent_heads = 8};
  DecoderConfig config = gemma2_base(reader, sizes, 131072);
  config.family = "Gemma 3";
  config.architecture = "Gemma3ForCausalLM";
  config.block.qk_norm = QkNorm::kPerHead;
  config.logits_softcap = gemma_cap(reader, "final_logit_softcapping", 0.0);
  read_pattern_windows(reader, gemma_window(reader), reader.size_or("sliding_window_pattern", 6),
                       config);
  read_ropes_per_type(
      reader,
      {.full_theta = 1000000.0, .sliding_theta = 10000.0, .sliding_key = "rope_local_base_freq"},
      config);
  return config;
}

}  // namespace fm::model
