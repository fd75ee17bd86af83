// How a run that trains a part of the parameters began: what an export of its checkpoints, which
// hold that part alone, needs to have the others again.
#pragma once

#include <string>

#include "engine/options.h"

namespace fm::engine {

// A JSON object of the options that decide the weights before the first step and what is trained of
// them; "" where all parameters are trained.
std::string start_of_part(const TrainOptions& options);

// Options of such a start, with one rank and nothing of the run's own. Throws MachineError (12)
// where a field is missing.
TrainOptions options_of_start(const std::string& start);

}  // namespace fm::engine
