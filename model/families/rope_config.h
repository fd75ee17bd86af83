// The rotary position embedding of config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "model/families/config_reader.h"

namespace fm::model {

struct RopeConfig {
  enum class Type : std::uint8_t { kNone, kDefault, kLlama3, kLinear, kYarn, kLongrope };
  enum class Pairs : std::uint8_t { kHalves, kNeighbours };
  Type type = Type::kDefault;
  double theta = 10000.0;
  std::int64_t rotary_dim = 0;  // the first elements of a head, which are rotated; 0: all
  Pairs pairs = Pairs::kHalves;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
  double attention_factor = 1.0;  // of cosines and sines; yarn and longrope
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;
  bool truncate = true;
  std::vector<double> short_factor = {};  // longrope, one per frequency: of rows that are no longer
  std::vector<double> long_factor = {};   // than original_max_position_embeddings, and of others
  // Queries are multiplied by 1 + query_beta log(1 + floor(position / original_max_position_...)).
  double query_beta = 0.0;
};

// The defaults of a family.
struct RopeDefaults {
  const char* theta_key = "rope_theta";
  double theta = 10000.0;
  const char* share_key = nullptr;      // beside rope_parameters; null: all elements are rotated
  double share = 1.0;                   // of the elements of a head that are rotated
  std::int64_t original_positions = 0;  // positions in the original training; 0: max_positions
  bool yarn_is_longrope = false;
  bool scales_queries = false;  // llama_4_scaling_beta is required
};

// Reads all four spellings: rope_scaling or rope_parameters, with "type" or "rope_type". Throws
// UserError (10) that names the key and what is supported. "dynamic" has no effect, because it
// changes nothing up to max_positions and rows are never longer.
RopeConfig read_rope(const ConfigReader& reader, std::int64_t head_dim, std::int64_t max_positions,
                     const RopeDefaults& defaults = {});

// Parameters per layer type: of layers with full attention, and of sliding ones.
struct LayerRopes {
  RopeConfig full, sliding;
};
// What earlier versions wrote beside them, and the defaults. rope_scaling is of full attention.
struct LayerRopeDefaults {
  double full_theta = 0.0;
  double sliding_theta = 0.0;
  const char* sliding_key = nullptr;  // null: there was no such key
};
LayerRopes read_layer_ropes(const ConfigReader& reader, std::int64_t head_dim,
                            std::int64_t max_positions, const LayerRopeDefaults& defaults);

const char* name_of(RopeConfig::Type type);

}  // namespace fm::model
