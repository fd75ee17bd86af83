// The values of config.json that decide a Llama.
#pragma once

#include <cstdint>
#include <string>

#include "model/config_reader.h"

namespace fm::model {

struct RopeConfig {
  enum class Type : std::uint8_t { kDefault, kLlama3, kLinear };
  Type type = Type::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
};

struct LlamaConfig {
  std::int64_t vocab = 32000;
  std::int64_t hidden = 4096;
  std::int64_t ffn = 11008;
  std::int64_t layers = 32;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 32;
  std::int64_t head_dim = 128;
  std::int64_t max_positions = 2048;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tied = false;
  std::int64_t pad_id = -1;  // as an input it teaches its row of the embedding nothing; -1: none
  RopeConfig rope;
};

// All four spellings of RoPE. UserError (10) names the key and what is supported.
LlamaConfig read_llama_config(const ConfigReader& at);

// A JSON object by the names of config.json: what decides the function.
std::string identity_of(const LlamaConfig& config);

}  // namespace fm::model
