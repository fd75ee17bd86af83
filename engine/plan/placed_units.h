// Which units lie on which pipe rank, and what a rank needs of each: the second stage of a plan
// (engine/plan/run_plan.h).
#pragma once

#include <vector>

#include "core/types.h"
#include "engine/options.h"
#include "engine/plan/run_shape.h"
#include "model/unit.h"
#include "pipeline/account.h"
#include "pipeline/placement.h"

namespace fm::engine {

// Of a unit and a micro-batch: what a rank sends to those that compute the unit with it, as
// tensor-parallel ranks or with other tokens of its rows (model::UnitSizes).
struct PeerBytes {
  core::Bytes forward, output, input, weight;
};

struct UnitNeeds {
  std::vector<pipeline::UnitFootprint> footprints;  // by unit
  std::vector<PeerBytes> to_peers;                  // by unit
  core::Elements hidden;                            // B x T x D: one hidden state on a rank
  core::Elements rope;                              // cosines and sines of a row's positions
};

struct PlacedUnits {
  pipeline::Placement units;
  UnitNeeds needs;
  // By unit, of the part that decides for all tensor-parallel ranks (model::Model::deciding).
  std::vector<pipeline::UnitFootprint> deciding;
};

// Throws UserError for a cut, or a share of tokens, that does not fit the model.
PlacedUnits place_units(const TrainOptions& options, const model::Model& model,
                        const RunShape& run);

// Forwards that forward and backward of a unit take together.
double whole_forwards(int unit, int first_backward);

}  // namespace fm::engine
