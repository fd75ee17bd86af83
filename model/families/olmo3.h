// OLMo 3: OLMo 2 with windows, and rotary parameters per layer type.
// transformers, models/olmo3/modeling_olmo3.py.
#pragma once

#include "model/families/olmo2.h"

namespace fm::model {

inline DecoderConfig read_olmo3_config(const ConfigReader& reader) {
  DecoderConfig config = olmo2_without_rope(reader);
  config.family = "OLMo3";
  config.architecture = "Olmo3ForCausalLM";
  const bool everywhere = reader.is_null("sliding_window");
  read_pattern_windows(reader, everywhere ? 0 : reader.size_or("sliding_window", 4096), 4, config);
  read_ropes_per_type(reader, {.full_theta = 500000.0, .sliding_theta = 500000.0}, config);
  return config;
}

}  // namespace fm::model
