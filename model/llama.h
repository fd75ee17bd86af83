// Llama as a row of units: embedding, blocks (RMSNorm, GQA attention with RoPE, SwiGLU), head.
// Architecture and parameter names: transformers, models/llama/modeling_llama.py.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "model/attention_kind.h"
#include "model/unit.h"

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
  std::string json;  // the source text of config.json, for writing it back with few changes
};

// Reads a Hugging Face config.json (all four spellings of RoPE). A UserError names the file: exit
// code 10 with the key and what is supported, 11 when the file is missing or not a JSON object.
LlamaConfig read_llama_config(const std::filesystem::path& config_json);

// The source text, with the architecture of what is trained where it names another (LlamaModel):
// programs that serve a folder choose by it what to load.
std::string causal_lm_config(const LlamaConfig& config);

// element: kF32 or kBF16. In bf16 attention must be kOwn.
Model make_llama(const LlamaConfig& config, const core::NoDecay& no_decay,
                 AttentionKind attention = AttentionKind::kOwn,
                 core::DType element = core::DType::kF32);

// Initial values of elements [first, first + out.size()) of one parameter: norms are ones, the
// rest normal(0, initializer_range) by Philox keyed by (seed, parameter name, element). A slice
// gets the same values as the whole.
void init_parameter(const core::ParamEntry& entry, std::uint64_t seed, double initializer_range,
                    core::Elements first, std::span<float> out);

}  // namespace fm::model
