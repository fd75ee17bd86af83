// The schedule of a run whose user named none.
#pragma once

#include <string>

#include "core/mesh.h"
#include "core/shard_plan.h"
#include "engine/options.h"
#include "model/unit.h"

namespace fm::engine {

// Where parameters sleep and there is one pipe rank, layer-major: they then cross the way to the
// disk once per phase, whatever the number of micro-batches. Not where that would change bits: in
// the fast order, 1f1b adds the gradients of both ends of a tied matrix in turn.
TrainOptions with_default_schedule(const TrainOptions& options, const model::Model& model,
                                   const core::Mesh& mesh);

// Why a run whose plan has this schedule does not take that of its options; "": it does, or its
// user said so.
std::string default_schedule_note(const TrainOptions& options, const std::string& schedule);

// Where the user's "pipeline.regather" is not what the plan does; else "".
std::string regather_note(const TrainOptions& options, core::Regather taken);

}  // namespace fm::engine
