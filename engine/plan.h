// What a run would do, for any number of ranks, without starting one: batch arithmetic, optimizer,
// what was noted about the configuration, rank map, programs, predicted bytes per memory account,
// bytes on the wire, bubble.
#pragma once

#include <string>

#include "engine/options.h"
#include "engine/run_plan.h"

namespace fm::engine {

// Both read the model's config.json and no weights. Throw UserError as training would.
std::string plan_text(const TrainOptions& options, const WorldShape& world);
std::string plan_json(const TrainOptions& options, const WorldShape& world);

}  // namespace fm::engine
