// A rank's black box in a training run (docs/blackbox.md).
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/blackbox/black_box.h"
#include "core/mesh.h"
#include "engine/options.h"
#include "engine/shown/run_context.h"
#include "model/unit.h"

namespace fm::engine {

// From now on the records lie in output_dir/blackbox, unless the options or a dry run say
// otherwise. Where that cannot be, the rank warns and trains on. Collective.
void keep_box(const TrainOptions& options, comm::Communicator& world, const RunContext& context);

// Instructions and units, by the numbers that instructions have.
void name_parts(core::BlackBox& box, const model::Model& model);

// "layers.1": what the names of a unit's parameters begin with.
std::vector<std::string> unit_names(const model::Model& model);

// By world rank: ranks of one pipe rank do the same work.
std::vector<int> pipe_ranks_of(const core::Mesh& mesh);

}  // namespace fm::engine
