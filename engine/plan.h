// What a run would do, for any number of ranks, without starting one: batch arithmetic, optimizer,
// what was noted about the configuration, rank map, programs, predicted bytes per memory account,
// bytes on the wire, bubble.
#pragma once

#include <string>
#include <vector>

#include "engine/memory_limit.h"
#include "engine/options.h"
#include "engine/run_plan.h"

namespace fm::engine {

// Both read the model's config.json and no weights. Throw UserError as training would, but for a
// plan that does not fit: `memory`, the limits of every host of options.ranks_per_host ranks, makes
// a line of that.
std::string plan_text(const TrainOptions& options, const WorldShape& world,
                      const std::vector<MemoryLimit>& memory = {});
std::string plan_json(const TrainOptions& options, const WorldShape& world,
                      const std::vector<MemoryLimit>& memory = {});

}  // namespace fm::engine
