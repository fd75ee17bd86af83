// How the row of units is cut into chunks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// --partition_method.
struct PartitionMethod {
  enum class Kind : std::uint8_t {
    kCost,        // the least time of the slowest chunk
    kUniform,     // DeepSpeed: as many units everywhere
    kParameters,  // DeepSpeed: trained parameters balanced
    kType,        // DeepSpeed: units whose type matches `pattern` balanced
    kLayers       // as many layers per chunk as `layers` says
  };
  Kind kind = Kind::kCost;
  std::string pattern = {};
  std::vector<int> layers = {};

  bool operator==(const PartitionMethod&) const = default;
};
// "cost" (or DeepSpeed's "best"), "uniform", "parameters", "type:REGEX", "3,2,3". Throws UserError.
PartitionMethod partition_named(const std::string& words);
std::string name_of(const PartitionMethod& method);

// Cuts 0 = c0 <= c1 <= ... = n of n items into `parts` parts, as deepspeed/runtime/utils.py makes
// them. Balanced: the least difference between the heaviest and the lightest part; of equal ones
// the last cut that is found. At most `parts` items: one each, then nothing.
std::vector<int> partition_uniform(int items, int parts);
std::vector<int> partition_balanced(std::span<const double> weights, int parts);

// The least cost of the most expensive part, each of one item or more; then the most even ones;
// then those whose earlier parts have more. Empty when there are fewer items than parts.
std::vector<int> partition_by_cost(std::span<const double> costs, int parts);

// By unit, with the embedding first and the head last.
struct UnitWeights {
  std::vector<double> costs;
  std::vector<double> parameters;  // trained
};
// Throws UserError for a cut that does not fit the model, or where a chunk but the first (which has
// the embedding) has no block: a rank with the head alone would have no backward.
Placement split_units(const PartitionMethod& method, const UnitWeights& units,
                      const PipeShape& shape, bool tied);

}  // namespace fm::pipeline
