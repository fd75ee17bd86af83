// Keys and defaults: transformers, models/llama/configuration_llama.py; RoPE:
// modeling_rope_utils.py.
#include "model/llama_config.h"

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"

namespace fm::model {
namespace {

// What fmengine's Llama does not have; better refused than silently different.
void refuse_other_blocks(const ConfigReader& at) {
  const std::string act = at.text_or("hidden_act", "silu");
  FM_USER_CHECK(act == "silu", at.where("hidden_act"), ": supported is \"silu\" (value \"", act,
                "\")");
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    FM_USER_CHECK(!at.flag_or(key, false), at.where(key),
                  ": supported is false; choose a model without biases (value true)");
  }
  const double dropout = at.number_or("attention_dropout", 0.0);
  FM_USER_CHECK(dropout == 0.0, at.where("attention_dropout"), ": supported is 0 (value ", dropout,
                ")");
  const double rotary = at.number_or("partial_rotary_factor", 1.0);
  FM_USER_CHECK(rotary == 1.0, at.where("partial_rotary_factor"), ": supported is 1 (value ",
                rotary, ")");
  FM_USER_CHECK(!at.has("quantization_config"), at.where("quantization_config"),
                ": quantized weights are not supported; use the unquantized model");
}

// Far beyond all models, and near enough that sizes of them can be multiplied and counted.
void check_total(const ConfigReader& at, const LlamaConfig& config) {
  constexpr std::int64_t kMostLayers = 10'000;
  constexpr double kMostParameters = 1e15;
  FM_USER_CHECK(config.layers <= kMostLayers, at.where("num_hidden_layers"), ": at most ",
                kMostLayers, " are supported; correct it (value ", config.layers, ")");
  const auto hidden = static_cast<double>(config.hidden);
  const double attention = 2.0 * static_cast<double>(config.heads + config.kv_heads) *
                           static_cast<double>(config.head_dim);
  const double block = hidden * (attention + 3.0 * static_cast<double>(config.ffn));
  const double parameters =
      static_cast<double>(config.layers) * block + 2.0 * hidden * static_cast<double>(config.vocab);
  FM_USER_CHECK(parameters <= kMostParameters, at.where("hidden_size"), ": a model of at most ",
                core::human_count(kMostParameters),
                " parameters is supported; correct the sizes (they give ",
                core::human_count(parameters), ")");
}

void read_sizes(const ConfigReader& at, LlamaConfig& config) {
  config.vocab = at.size("vocab_size");
  config.hidden = at.size("hidden_size");
  config.ffn = at.size("intermediate_size");
  config.layers = at.size("num_hidden_layers");
  config.heads = at.size("num_attention_heads");
  config.kv_heads = at.size_or("num_key_value_heads", config.heads);
  FM_USER_CHECK(config.heads % config.kv_heads == 0, at.where("num_key_value_heads"),
                ": must divide num_attention_heads (num_key_value_heads=", config.kv_heads,
                ", num_attention_heads=", config.heads, ")");
  // The arithmetic would allow it where head_dim is given.
  FM_USER_CHECK(config.hidden % config.heads == 0, at.where("num_attention_heads"),
                ": must divide hidden_size, otherwise transformers does not load what is exported "
                "(num_attention_heads=",
                config.heads, ", hidden_size=", config.hidden, ")");
  config.head_dim = at.size_or("head_dim", config.hidden / config.heads);
  FM_USER_CHECK(config.head_dim % 2 == 0, at.where("head_dim"),
                ": must be even for rotary embedding (head_dim=", config.head_dim,
                ", hidden_size=", config.hidden, ", num_attention_heads=", config.heads, ")");
  config.max_positions = at.size_or("max_position_embeddings", config.max_positions);
  check_total(at, config);
}

// torch.nn.Embedding counts a negative padding_idx from the end.
std::int64_t read_pad_id(const ConfigReader& at, std::int64_t vocab) {
  const std::int64_t id = at.whole_or("pad_token_id", -1 - vocab);
  if (id == -1 - vocab) return -1;
  FM_USER_CHECK(id >= -vocab && id < vocab, at.where("pad_token_id"),
                ": must be an id of the vocabulary, or null (pad_token_id=", id,
                ", vocab_size=", vocab, ")");
  return id < 0 ? id + vocab : id;
}

// trained_positions: where `at` does not say them.
void read_scaling(const ConfigReader& at, std::int64_t trained_positions, RopeConfig& rope) {
  // Files before transformers 4.43 say "type"; where both stand, "rope_type" rules.
  const char* type_key = at.has("rope_type") || !at.has("type") ? "rope_type" : "type";
  const std::string type = at.text_or(type_key, "default");
  if (type == "default") return;
  FM_USER_CHECK(type == "llama3" || type == "linear", at.where(type_key),
                ": supported are \"default\", \"llama3\" and \"linear\" (value \"", type, "\")");
  rope.type = type == "llama3" ? RopeConfig::Type::kLlama3 : RopeConfig::Type::kLinear;
  rope.factor = at.positive("factor");
  if (rope.type == RopeConfig::Type::kLinear) return;
  rope.low_freq_factor = at.positive("low_freq_factor");
  rope.high_freq_factor = at.positive("high_freq_factor");
  rope.original_max_position_embeddings =
      at.size_or("original_max_position_embeddings", trained_positions);
  FM_USER_CHECK(rope.high_freq_factor > rope.low_freq_factor, at.where("high_freq_factor"),
                ": must be above low_freq_factor (high_freq_factor=", rope.high_freq_factor,
                ", low_freq_factor=", rope.low_freq_factor, ")");
}

// transformers 5 writes rope_parameters; earlier versions rope_theta and rope_scaling. Where both
// objects stand, rope_scaling alone rules unless it is empty (convert_rope_params_to_dict).
RopeConfig read_rope(const ConfigReader& at, std::int64_t max_positions) {
  RopeConfig rope;
  rope.theta = at.positive_or("rope_theta", rope.theta);
  const bool scaling_rules = at.has("rope_scaling") && !at.inner("rope_scaling").empty();
  const char* key = scaling_rules ? "rope_scaling" : "rope_parameters";
  if (!at.has(key)) return rope;
  const ConfigReader inner = at.inner(key);
  rope.theta = inner.positive_or("rope_theta", rope.theta);
  const double rotary = inner.number_or("partial_rotary_factor", 1.0);
  FM_USER_CHECK(rotary == 1.0, inner.where("partial_rotary_factor"), ": supported is 1 (value ",
                rotary, ")");
  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    FM_USER_CHECK(!inner.has(layer_type), inner.where(layer_type),
                  ": parameters per layer type are not part of Llama; give one set");
  }
  read_scaling(inner, max_positions, rope);
  if (rope.type != RopeConfig::Type::kLlama3) return rope;
  // Beside the object it rules over what stands in it (standardize_rope_params).
  rope.original_max_position_embeddings =
      at.size_or("original_max_position_embeddings", rope.original_max_position_embeddings);
  return rope;
}

const char* name_of(RopeConfig::Type type) {
  switch (type) {
    case RopeConfig::Type::kDefault: return "default";
    case RopeConfig::Type::kLlama3: return "llama3";
    case RopeConfig::Type::kLinear: return "linear";
  }
  return "?";
}

}  // namespace

LlamaConfig read_llama_config(const ConfigReader& at) {
  LlamaConfig config;
  refuse_other_blocks(at);
  read_sizes(at, config);
  config.rms_norm_eps = at.positive_or("rms_norm_eps", config.rms_norm_eps);
  config.initializer_range = at.positive_or("initializer_range", config.initializer_range);
  config.tied = at.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(at, config.vocab);
  config.rope = read_rope(at, config.max_positions);
  return config;
}

std::string identity_of(const LlamaConfig& config) {
  const RopeConfig& rope = config.rope;
  const nlohmann::json values = {
      {"vocab_size", config.vocab},
      {"hidden_size", config.hidden},
      {"intermediate_size", config.ffn},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"rms_norm_eps", config.rms_norm_eps},
      {"tie_word_embeddings", config.tied},
      {"pad_token_id", config.pad_id},
      {"rope_type", name_of(rope.type)},
      {"rope_theta", rope.theta},
      {"rope_factor", rope.factor},
      {"low_freq_factor", rope.low_freq_factor},
      {"high_freq_factor", rope.high_freq_factor},
      {"original_max_position_embeddings", rope.original_max_position_embeddings}};
  return values.dump();
}

}  // namespace fm::model
