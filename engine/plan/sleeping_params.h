// Whether a run's parameters sleep on disks ("offload_param").
#pragma once

#include "core/mesh.h"
#include "engine/options.h"
#include "model/unit.h"

namespace fm::engine {

// Of a data rank, where it owns one slice of every unit: elements that sleep unless they are among
// the first that stay in memory ("max_in_cpu"). False, too, where all of them stay. Throws
// UserError where ZeRO does not cut parameters.
bool params_sleep(const TrainOptions& options, const model::Model& model, const core::Mesh& mesh);

}  // namespace fm::engine
