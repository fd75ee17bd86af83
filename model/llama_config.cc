// Reads a Hugging Face config.json. Keys and defaults: transformers,
// models/llama/configuration_llama.py; RoPE: modeling_rope_utils.py.
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"
#include "core/small_file.h"
#include "core/text.h"
#include "model/llama.h"

namespace fm::model {
namespace {

using Json = nlohmann::json;

// A value in a message; writing brackets in brackets without end would need a stack without end.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_object() ? "an object" : "an array";
  return value.dump();
}

// One object of the file with what messages need.
class Reader {
 public:
  Reader(const Json& object, std::string file, std::string prefix = "")
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  // A key set to null counts as absent, as in transformers.
  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
  bool empty() const { return object_.empty(); }
  std::string where(const char* key) const { return file_ + ", key " + prefix_ + key; }

  const Json& required(const char* key) const {
    FM_USER_CHECK(has(key), where(key), ": this key is required; add it");
    return object_[key];
  }
  std::int64_t size(const char* key) const { return size_of(key, required(key)); }
  std::int64_t size_or(const char* key, std::int64_t absent) const {
    return has(key) ? size_of(key, object_[key]) : absent;
  }
  double positive(const char* key) const { return positive_of(key, required(key)); }
  double positive_or(const char* key, double absent) const {
    return has(key) ? positive_of(key, object_[key]) : absent;
  }
  double number_or(const char* key, double absent) const {
    return has(key) ? number_of(key, object_[key]) : absent;
  }
  std::int64_t whole_or(const char* key, std::int64_t absent) const {
    if (!has(key)) return absent;
    FM_USER_CHECK(object_[key].is_number_integer(), where(key),
                  ": a whole number is required (value ", shown(object_[key]), ")");
    return object_[key].get<std::int64_t>();
  }
  bool flag_or(const char* key, bool absent) const {
    if (!has(key)) return absent;
    FM_USER_CHECK(object_[key].is_boolean(), where(key), ": true or false is required (value ",
                  shown(object_[key]), ")");
    return object_[key].get<bool>();
  }
  std::string text_or(const char* key, const std::string& absent) const {
    if (!has(key)) return absent;
    FM_USER_CHECK(object_[key].is_string(), where(key), ": a string is required (value ",
                  shown(object_[key]), ")");
    return object_[key].get<std::string>();
  }
  Reader inner(const char* key) const {
    FM_USER_CHECK(object_[key].is_object(), where(key), ": an object is required (value ",
                  shown(object_[key]), ")");
    return {object_[key], file_, prefix_ + key + "."};
  }

 private:
  std::int64_t size_of(const char* key, const Json& value) const {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest);
    FM_USER_CHECK(fits, where(key), ": a whole number from 1 to ", kLargest, " is required (value ",
                  shown(value), ")");
    return value.get<std::int64_t>();
  }
  double number_of(const char* key, const Json& value) const {
    FM_USER_CHECK(value.is_number(), where(key), ": a number is required (value ", shown(value),
                  ")");
    return value.get<double>();
  }
  double positive_of(const char* key, const Json& value) const {
    const double number = number_of(key, value);
    FM_USER_CHECK(number > 0.0, where(key), ": a number above 0 is required (value ", shown(value),
                  ")");
    return number;
  }

  const Json& object_;
  std::string file_;
  std::string prefix_;
};

// What fmengine's Llama does not have; better refused than silently different.
void refuse_other_architectures(const Reader& at) {
  const std::string type = at.text_or("model_type", "");
  FM_USER_CHECK(type == "llama", at.where("model_type"),
                ": supported is \"llama\"; choose such a model (value \"", type, "\")");
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
void check_total(const Reader& at, const LlamaConfig& config) {
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

void read_sizes(const Reader& at, LlamaConfig& config) {
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
std::int64_t read_pad_id(const Reader& at, std::int64_t vocab) {
  const std::int64_t id = at.whole_or("pad_token_id", -1 - vocab);
  if (id == -1 - vocab) return -1;
  FM_USER_CHECK(id >= -vocab && id < vocab, at.where("pad_token_id"),
                ": must be an id of the vocabulary, or null (pad_token_id=", id,
                ", vocab_size=", vocab, ")");
  return id < 0 ? id + vocab : id;
}

// trained_positions: where `at` does not say them.
void read_scaling(const Reader& at, std::int64_t trained_positions, RopeConfig& rope) {
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
RopeConfig read_rope(const Reader& at, std::int64_t max_positions) {
  RopeConfig rope;
  rope.theta = at.positive_or("rope_theta", rope.theta);
  const bool scaling_rules = at.has("rope_scaling") && !at.inner("rope_scaling").empty();
  const char* key = scaling_rules ? "rope_scaling" : "rope_parameters";
  if (!at.has(key)) return rope;
  const Reader inner = at.inner(key);
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

std::string read_text(const std::filesystem::path& path) {
  core::SmallFile file = core::read_small_file(path, core::kMostConfig, core::FileKind::kAny);
  FM_DATA_CHECK(file.problem.empty(),
                "the model's configuration must be a readable file; check the path (",
                path.string(), ": ", file.problem, ")");
  return std::move(file.text);
}

}  // namespace

LlamaConfig read_llama_config(const std::filesystem::path& config_json) {
  LlamaConfig config;
  config.json = read_text(config_json);
  const std::string file = config_json.string();
  Json json;
  try {
    json = Json::parse(config.json);
  } catch (const Json::exception& error) {
    FM_DATA_CHECK(false, "the model's configuration must be valid JSON; repair ", file, " (",
                  error.what(), ")");
  }
  FM_DATA_CHECK(json.is_object(), "the model's configuration must be a JSON object; repair ", file);
  const Reader at(json, file);
  refuse_other_architectures(at);
  read_sizes(at, config);
  config.rms_norm_eps = at.positive_or("rms_norm_eps", config.rms_norm_eps);
  config.initializer_range = at.positive_or("initializer_range", config.initializer_range);
  config.tied = at.flag_or("tie_word_embeddings", false);
  config.pad_id = read_pad_id(at, config.vocab);
  config.rope = read_rope(at, config.max_positions);
  return config;
}

std::string causal_lm_config(const LlamaConfig& config) {
  const nlohmann::ordered_json wanted = {"LlamaForCausalLM"};
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(config.json);
  if (json.value("architectures", wanted) == wanted) return config.json;
  json["architectures"] = wanted;
  return json.dump(2) + "\n";
}

}  // namespace fm::model
