// How the sequence of units is partitioned into chunks.
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
  enum class Criterion : std::uint8_t {
    kCost,        // minimizes the time of the slowest chunk
    kUniform,     // DeepSpeed: equal numbers of units
    kParameters,  // DeepSpeed: trained parameters balanced
    kType,        // DeepSpeed: units whose type matches `pattern` balanced
    kLayers       // as many layers per chunk as `layers` says
  };
  Criterion kind = Criterion::kCost;
  std::string pattern = {};
  std::vector<int> layers = {};

  bool operator==(const PartitionMethod&) const = default;
};
// "cost" (or DeepSpeed's "best"), "uniform", "parameters", "type:REGEX", "3,2,3". Throws UserError.
PartitionMethod partition_named(const std::string& words);
std::string name_of(const PartitionMethod& method);

// The boundaries 0 = c0 <= c1 <= ... = n of `parts` parts of n items, as deepspeed/runtime/utils.py
// computes them. Balanced: minimizes the difference between the heaviest and the lightest part; the
// last of equal solutions. At most `parts` items: one item each, then empty parts.
std::vector<int> partition_uniform(int items, int parts);
std::vector<int> partition_balanced(std::span<const double> weights, int parts);

// Minimizes the cost of the most expensive part, where each part has at least one item; among equal
// solutions prefers the most even, then larger earlier parts. Empty when there are fewer items than
// parts.
std::vector<int> partition_by_cost(std::span<const double> costs, int parts);

// By unit, with the embedding first and the head last.
struct UnitWeights {
  std::vector<double> costs;
  std::vector<double> parameters;  // trained
};
// Throws UserError for a partition that does not fit the model, or where a chunk other than the
// first (which has the embedding) has no block: a rank with the head alone would have no backward.
Placement split_units(const PartitionMethod& method, const UnitWeights& units,
                      const PipeShape& shape, bool tied);

}  // namespace fm::pipeline
