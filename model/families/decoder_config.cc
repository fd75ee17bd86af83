#include "model/families/decoder_config.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"

namespace fm::model {
namespace {

using kernels::Activation;

struct ActivationName {
  const char* name;
  Activation activation;
};
// The names of transformers/activations.py.
constexpr ActivationName kActivations[] = {{"silu", Activation::kSilu},
                                           {"swish", Activation::kSilu},
                                           {"gelu", Activation::kGelu},
                                           {"gelu_new", Activation::kGeluTanh},
                                           {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                           {"gelu_fast", Activation::kGeluTanh},
                                           {"relu", Activation::kRelu}};

std::int64_t read_kv_heads(const ConfigReader& reader, const SizeKeys& keys, std::int64_t heads) {
  if (keys.kv_heads == nullptr) return heads;
  const bool follows = keys.absent_kv_heads == 0 || reader.is_null(keys.kv_heads);
  const std::int64_t count = reader.size_or(keys.kv_heads, follows ? heads : keys.absent_kv_heads);
  FM_USER_CHECK(heads % count == 0, reader.where(keys.kv_heads), ": must divide ", keys.heads, " (",
                keys.kv_heads, "=", count, ", ", keys.heads, "=", heads, ")");
  return count;
}

}  // namespace

void read_sizes(const ConfigReader& reader, const SizeKeys& keys, DecoderConfig& config) {
  FM_USER_CHECK(!reader.has("quantization_config"), reader.where("quantization_config"),
                ": quantized weights are not supported; use the unquantized model");
  FM_USER_CHECK(
      !reader.has("per_layer_config"), reader.where("per_layer_config"),
      ": layers of unlike shape are not supported; choose a model whose layers are alike");
  const auto size = [&](const char* key, std::int64_t absent) {
    return absent > 0 ? reader.size_or(key, absent) : reader.size(key);
  };
  config.vocab = size("vocab_size", keys.absent_vocab);
  config.hidden = reader.size(keys.hidden);
  config.ffn =
      config.ffn == 0 ? reader.size_or(keys.ffn, 4 * config.hidden) : reader.size(keys.ffn);
  config.layers = reader.size(keys.layers);
  config.heads = size(keys.heads, keys.absent_heads);
  config.kv_heads = read_kv_heads(reader, keys, config.heads);
  config.max_positions = reader.size_or(keys.positions, config.max_positions);
}

void read_head_dim(const ConfigReader& reader, std::int64_t absent, DecoderConfig& config) {
  const bool follows = absent == 0 && !reader.has("head_dim");
  FM_USER_CHECK(!follows || config.hidden % config.heads == 0, reader.where("num_attention_heads"),
                ": must divide hidden_size (num_attention_heads=", config.heads,
                ", hidden_size=", config.hidden, ")");
  config.head_dim = reader.size_or("head_dim", absent > 0 ? absent : config.hidden / config.heads);
  FM_USER_CHECK(config.head_dim % 2 == 0, reader.where("head_dim"),
                ": must be even for rotary embedding (head_dim=", config.head_dim,
                ", hidden_size=", config.hidden, ", num_attention_heads=", config.heads, ")");
}

Activation read_activation(const ConfigReader& reader, const char* key, const char* absent) {
  const std::string name = reader.text_or(key, absent);
  std::vector<std::string> known;
  for (const ActivationName& row : kActivations) {
    if (name == row.name) return row.activation;
    known.push_back(core::concat('"', row.name, '"'));
  }
  FM_USER_CHECK(false, reader.where(key), ": supported are ", core::join(known, ", "), " (value \"",
                name, "\")");
}

std::int64_t read_pad_id(const ConfigReader& reader, std::int64_t vocab, std::int64_t absent) {
  const std::int64_t none = -1 - vocab;
  const std::int64_t id = reader.whole_or("pad_token_id", absent < 0 ? none : absent);
  if (id == none) return -1;
  FM_USER_CHECK(id >= -vocab && id < vocab, reader.where("pad_token_id"),
                ": must be an id of the vocabulary, or null (pad_token_id=", id,
                ", vocab_size=", vocab, ")");
  return id < 0 ? id + vocab : id;
}

DropoutConfig read_dropout(const ConfigReader& reader, const DropoutKeys& keys) {
  const auto read = [&](const char* key) {
    if (key == nullptr) return 0.0;
    const double dropout = reader.number_or(key, keys.absent);
    FM_USER_CHECK(dropout >= 0.0 && dropout < 1.0, reader.where(key),
                  ": must be at least 0 and below 1; correct it (value ", dropout, ")");
    return dropout;
  };
  return {.embedding = read(keys.embedding),
          .attention = read(keys.attention),
          .residual = read(keys.residual)};
}

void slide_all(std::int64_t window, DecoderConfig& config) {
  if (window > 0) config.windows.assign(static_cast<std::size_t>(config.layers), window);
}

void read_windows(const ConfigReader& reader, std::int64_t window,
                  const std::function<bool(std::int64_t)>& slides, DecoderConfig& config) {
  const std::vector<std::string> types = reader.texts_or_none("layer_types");
  FM_USER_CHECK(types.empty() || std::ssize(types) == config.layers, reader.where("layer_types"),
                ": must have one entry per layer (it has ", types.size(), ", the model ",
                config.layers, " layers)");
  for (const std::string& type : types) {
    FM_USER_CHECK(
        type == "full_attention" || type == "sliding_attention", reader.where("layer_types"),
        ": supported are \"full_attention\" and \"sliding_attention\" (value \"", type, "\")");
    FM_USER_CHECK(window > 0 || type == "full_attention", reader.where("layer_types"),
                  ": \"sliding_attention\" needs a sliding_window; name it");
  }
  if (window == 0) return;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool has = types.empty() ? slides(layer)
                                   : types[static_cast<std::size_t>(layer)] == "sliding_attention";
    config.windows.push_back(has ? window : 0);
  }
}

void read_pattern_windows(const ConfigReader& reader, std::int64_t window, std::int64_t pattern,
                          DecoderConfig& config) {
  read_windows(
      reader, window, [=](std::int64_t layer) { return (layer + 1) % pattern != 0; }, config);
}

void read_ropes_per_type(const ConfigReader& reader, const LayerRopeDefaults& defaults,
                         DecoderConfig& config) {
  const LayerRopes ropes =
      read_layer_ropes(reader, config.head_dim, config.max_positions, defaults);
  config.rope = ropes.full;
  config.local_rope = ropes.sliding;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    config.layer_ropes.push_back(config.slides(layer) ? LayerRope::kLocal : LayerRope::kMain);
  }
}

void check_total(const ConfigReader& reader, const SizeKeys& keys, const DecoderConfig& config) {
  constexpr std::int64_t kMostLayers = 10'000;
  constexpr double kMostParameters = 1e15;
  FM_USER_CHECK(config.layers <= kMostLayers, reader.where(keys.layers), ": at most ", kMostLayers,
                " are supported; correct it (value ", config.layers, ")");
  const auto hidden = static_cast<double>(config.hidden);
  const double attention = 2.0 * static_cast<double>(config.heads + config.kv_heads) *
                           static_cast<double>(config.head_dim);
  const double block = hidden * (attention + 3.0 * static_cast<double>(config.ffn));
  const double parameters =
      static_cast<double>(config.layers) * block + 2.0 * hidden * static_cast<double>(config.vocab);
  FM_USER_CHECK(parameters <= kMostParameters, reader.where(keys.hidden), ": a model of at most ",
                core::human_count(kMostParameters),
                " parameters is supported; correct the sizes (they give ",
                core::human_count(parameters), ")");
}

namespace {

// Only values that differ from a Llama without biases, so that checkpoints of older builds resume.
void add_block(const DecoderConfig& config, nlohmann::json& values) {
  const BlockConfig& block = config.block;
  const BlockConfig plain;
  const auto add = [&](const char* name, const auto& value, const auto& usual) {
    if (value != usual) values[name] = value;
  };
  const auto number = [](auto choice) { return static_cast<int>(choice); };
  add("architecture", config.architecture, DecoderConfig().architecture);
  add("attention_bias", block.qkv_bias, false);
  add("attention_out_bias", block.out_bias, false);
  add("mlp_bias", block.mlp_bias, false);
  add("residual", number(block.residual), number(plain.residual));
  add("activation", number(block.activation), number(plain.activation));
  add("windows", config.windows, std::vector<std::int64_t>());
  add("embedding_dropout", config.dropout.embedding, 0.0);
  add("attention_dropout", config.dropout.attention, 0.0);
  add("residual_dropout", config.dropout.residual, 0.0);
  add("norm_without_bias", block.norm == NormKind::kLayerNoBias, false);
  add("logits_scale", config.logits_scale, 1.0);
  add("logits_softcap", config.logits_softcap, 0.0);
  add("attention_scale", config.attention_scale, 0.0);
  add("attention_softcap", config.attention_softcap, 0.0);
  add("residual_multiplier", config.residual_scale, 1.0);
  // Where norms multiply by 1 + weight the scale follows from hidden_size.
  const bool follows = block.norm == NormKind::kRmsOnePlus;
  add("embedding_multiplier", follows ? 1.0 : config.embedding_scale, 1.0);
  add("query_beta", config.rope.query_beta, 0.0);
  add("rotary_dim", config.rope.rotary_dim, config.head_dim);
  add("attention_factor", config.rope.attention_factor, 1.0);
  add("beta_fast", config.rope.beta_fast, RopeConfig().beta_fast);
  add("beta_slow", config.rope.beta_slow, RopeConfig().beta_slow);
  add("truncate", config.rope.truncate, true);
  add("short_factor", config.rope.short_factor, std::vector<double>());
  add("long_factor", config.rope.long_factor, std::vector<double>());
  std::vector<int> ropes;
  for (const LayerRope each : config.layer_ropes) ropes.push_back(number(each));
  add("layer_ropes", ropes, std::vector<int>());
  if (config.local_rope.type == RopeConfig::Type::kNone) return;
  values["local_rope"] = {{"rope_type", name_of(config.local_rope.type)},
                          {"rope_theta", config.local_rope.theta},
                          {"rope_factor", config.local_rope.factor},
                          {"attention_factor", config.local_rope.attention_factor}};
}

}  // namespace

std::string identity_of(const DecoderConfig& config) {
  const RopeConfig& rope = config.rope;
  nlohmann::json values = {
      {"vocab_size", config.vocab},
      {"hidden_size", config.hidden},
      {"intermediate_size", config.ffn},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"rms_norm_eps", config.norm_eps},
      {"tie_word_embeddings", config.tied},
      {"pad_token_id", config.pad_id},
      {"rope_type", name_of(rope.type)},
      {"rope_theta", rope.theta},
      {"rope_factor", rope.factor},
      {"low_freq_factor", rope.low_freq_factor},
      {"high_freq_factor", rope.high_freq_factor},
      {"original_max_position_embeddings", rope.original_max_position_embeddings}};
  add_block(config, values);
  return values.dump();
}

}  // namespace fm::model
