// Keys, defaults and formulas: transformers, modeling_rope_utils.py.
#include "model/families/rope_config.h"

#include <cmath>

#include "core/check.h"
#include "core/text.h"

namespace fm::model {
namespace {

using Type = RopeConfig::Type;

struct TypeName {
  const char* name;
  Type type;
};
constexpr TypeName kTypes[] = {{"default", Type::kDefault}, {"llama3", Type::kLlama3},
                               {"linear", Type::kLinear},   {"dynamic", Type::kDefault},
                               {"yarn", Type::kYarn},       {"longrope", Type::kLongrope}};

Type read_type(const ConfigReader& reader, const RopeDefaults& defaults) {
  // Files before transformers 4.43 have "type"; where both are present, "rope_type" counts.
  const char* key = reader.has("rope_type") || !reader.has("type") ? "rope_type" : "type";
  const std::string name = reader.text_or(key, "default");
  if (defaults.yarn_is_longrope && (name == "yarn" || name == "su")) return Type::kLongrope;
  // Text alone has the same position in every section, which makes it the default.
  if (name == "mrope" && reader.has("mrope_section")) return Type::kDefault;
  std::vector<std::string> known;
  for (const TypeName& row : kTypes) {
    if (name == row.name) return row.type;
    known.push_back(core::concat('"', row.name, '"'));
  }
  FM_USER_CHECK(false, reader.where(key), ": supported are ", core::join(known, ", "), " (value \"",
                name, "\")");
}

void read_llama3(const ConfigReader& reader, RopeConfig& rope) {
  rope.factor = reader.positive("factor");
  rope.low_freq_factor = reader.positive("low_freq_factor");
  rope.high_freq_factor = reader.positive("high_freq_factor");
  FM_USER_CHECK(rope.high_freq_factor > rope.low_freq_factor, reader.where("high_freq_factor"),
                ": must be above low_freq_factor (high_freq_factor=", rope.high_freq_factor,
                ", low_freq_factor=", rope.low_freq_factor, ")");
}

double stretch_of(const ConfigReader& reader, const RopeConfig& rope, std::int64_t max_positions) {
  return reader.positive_or("factor",
                            static_cast<double>(max_positions) /
                                static_cast<double>(rope.original_max_position_embeddings));
}

void read_yarn(const ConfigReader& reader, std::int64_t max_positions, RopeConfig& rope) {
  rope.factor = stretch_of(reader, rope, max_positions);
  const auto scale = [&](double mscale) {
    return rope.factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  const double mscale = reader.number_or("mscale", 0.0);
  const double all_dims = reader.number_or("mscale_all_dim", 0.0);
  const bool both = mscale != 0.0 && all_dims != 0.0;
  rope.attention_factor =
      reader.positive_or("attention_factor", both ? scale(mscale) / scale(all_dims) : scale(1.0));
  rope.beta_fast = reader.positive_or("beta_fast", rope.beta_fast);
  rope.beta_slow = reader.positive_or("beta_slow", rope.beta_slow);
  rope.truncate = reader.flag_or("truncate", true);
}

std::vector<double> read_factors(const ConfigReader& reader, const char* key, std::int64_t count) {
  std::vector<double> factors = reader.numbers(key);
  FM_USER_CHECK(std::ssize(factors) == count, reader.where(key), ": must have ", count,
                " numbers, one per frequency (it has ", factors.size(), ")");
  for (const double factor : factors) {
    FM_USER_CHECK(factor > 0.0, reader.where(key), ": numbers above 0 are required (value ", factor,
                  ")");
  }
  return factors;
}

void read_longrope(const ConfigReader& reader, std::int64_t max_positions, RopeConfig& rope) {
  rope.factor = stretch_of(reader, rope, max_positions);
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double wanted =
      rope.factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(rope.factor) / std::log(original));
  rope.attention_factor = reader.positive_or("attention_factor", wanted);
  rope.short_factor = read_factors(reader, "short_factor", rope.rotary_dim / 2);
  rope.long_factor = read_factors(reader, "long_factor", rope.rotary_dim / 2);
}

constexpr const char* kShare = "partial_rotary_factor";

// `parameters`: null where the file has no such object.
std::int64_t read_rotary_dim(const ConfigReader& reader, const ConfigReader* parameters,
                             std::int64_t head_dim, const RopeDefaults& defaults) {
  const bool partial = defaults.share_key != nullptr;
  const bool own_share = partial && parameters != nullptr && parameters->has(kShare);
  const ConfigReader& sharing = own_share ? *parameters : reader;
  const char* key = own_share || !partial ? kShare : defaults.share_key;
  const double share = partial ? sharing.positive_or(key, defaults.share) : 1.0;
  const auto turning = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  FM_USER_CHECK(share <= 1.0 && turning >= 2 && turning % 2 == 0, sharing.where(key),
                ": an even number of a head's elements must turn, from 2 to all (value ", share,
                ", elements ", head_dim, ")");
  return turning;
}

// In the other families transformers ignores a share with the default type (dynamic is the same up
// to max_positions), and fails with every other type.
void check_whole_heads(const ConfigReader& reader, const ConfigReader& inner, Type type,
                       const RopeDefaults& defaults) {
  if (defaults.share_key != nullptr || type == Type::kDefault) return;
  const ConfigReader& sharing = inner.has(kShare) ? inner : reader;
  const double share = sharing.positive_or(kShare, 1.0);
  FM_USER_CHECK(share == 1.0, sharing.where(kShare),
                ": heads of this family turn whole; leave the key out (value ", share, ")");
}

// One set of parameters.
struct Parameters {
  const ConfigReader& file;
  const ConfigReader* set = nullptr;  // null: the file has none
  bool of_layer_type = false;
};

constexpr const char* kOriginal = "original_max_position_embeddings";

RopeConfig read_parameters(const Parameters& from, double theta, std::int64_t head_dim,
                           std::int64_t max_positions, const RopeDefaults& defaults) {
  RopeConfig rope;
  rope.theta = theta;
  rope.rotary_dim = read_rotary_dim(from.file, from.set, head_dim, defaults);
  if (from.set == nullptr) return rope;
  const ConfigReader& set = *from.set;
  rope.theta = set.positive_or("rope_theta", theta);
  rope.type = read_type(set, defaults);
  check_whole_heads(from.file, set, rope.type, defaults);
  const bool trained =
      rope.type == Type::kLlama3 || rope.type == Type::kYarn || rope.type == Type::kLongrope;
  if (trained) {
    const std::int64_t own = set.size_or(kOriginal, max_positions);
    const std::int64_t wanted = defaults.original_positions > 0 ? defaults.original_positions : own;
    // A value beside the object overrides the one inside it (standardize_rope_params).
    rope.original_max_position_embeddings =
        from.of_layer_type ? own : from.file.size_or(kOriginal, wanted);
  }
  if (defaults.scales_queries) {
    rope.query_beta = set.positive("llama_4_scaling_beta");
    if (!trained) rope.original_max_position_embeddings = set.size(kOriginal);
  }
  switch (rope.type) {
    case Type::kNone:
    case Type::kDefault: break;
    case Type::kLinear: rope.factor = set.positive("factor"); break;
    case Type::kLlama3: read_llama3(set, rope); break;
    case Type::kYarn: read_yarn(set, max_positions, rope); break;
    case Type::kLongrope: read_longrope(set, max_positions, rope); break;
  }
  return rope;
}

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

void refuse_layer_types(const ConfigReader& set) {
  for (const char* layer_type : {kFull, kSliding}) {
    FM_USER_CHECK(!set.has(layer_type), set.where(layer_type),
                  ": parameters per layer type are not supported here; give one set");
  }
}

bool has_set(const ConfigReader& reader, const char* key) {
  return reader.has(key) && !reader.inner(key).empty();
}

}  // namespace

// transformers 5 writes rope_parameters, earlier versions rope_theta and rope_scaling. Where both
// objects are present, rope_scaling alone counts unless it is empty (convert_rope_params_to_dict).
RopeConfig read_rope(const ConfigReader& reader, std::int64_t head_dim, std::int64_t max_positions,
                     const RopeDefaults& defaults) {
  const char* key = has_set(reader, "rope_scaling") ? "rope_scaling" : "rope_parameters";
  const double theta = reader.positive_or(defaults.theta_key, defaults.theta);
  if (!reader.has(key)) return read_parameters({reader}, theta, head_dim, max_positions, defaults);
  const ConfigReader set = reader.inner(key);
  refuse_layer_types(set);
  return read_parameters({reader, &set}, theta, head_dim, max_positions, defaults);
}

LayerRopes read_layer_ropes(const ConfigReader& reader, std::int64_t head_dim,
                            std::int64_t max_positions, const LayerRopeDefaults& defaults) {
  const auto read = [&](const ConfigReader* set, double theta) {
    return read_parameters({reader, set, true}, theta, head_dim, max_positions, {});
  };
  const double full = reader.positive_or("rope_theta", defaults.full_theta);
  const double sliding = defaults.sliding_key == nullptr
                             ? defaults.sliding_theta
                             : reader.positive_or(defaults.sliding_key, defaults.sliding_theta);
  const bool scaled = has_set(reader, "rope_scaling");
  if (!has_set(reader, "rope_parameters")) {
    if (!scaled) return {read(nullptr, full), read(nullptr, sliding)};
    const ConfigReader set = reader.inner("rope_scaling");
    refuse_layer_types(set);
    return {read(&set, full), read(nullptr, sliding)};
  }
  FM_USER_CHECK(!scaled, reader.where("rope_scaling"),
                ": may not stand beside rope_parameters; leave out one of them");
  const ConfigReader sets = reader.inner("rope_parameters");
  for (const char* flat : {"rope_type", "type", "rope_theta", "factor"}) {
    FM_USER_CHECK(!sets.has(flat), sets.where(flat),
                  ": parameters stand per layer type here; move "
                  "them into \"full_attention\" and \"sliding_attention\"");
  }
  const auto of_type = [&](const char* layer_type, double theta) {
    if (!sets.has(layer_type)) return read(nullptr, theta);
    const ConfigReader set = sets.inner(layer_type);
    return read(&set, theta);
  };
  return {of_type(kFull, full), of_type(kSliding, sliding)};
}

const char* name_of(RopeConfig::Type type) {
  switch (type) {
    case Type::kNone: return "none";
    case Type::kDefault: return "default";
    case Type::kLlama3: return "llama3";
    case Type::kLinear: return "linear";
    case Type::kYarn: return "yarn";
    case Type::kLongrope: return "longrope";
  }
  return "?";
}

}  // namespace fm::model
