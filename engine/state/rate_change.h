// How the learning rate jumps where a run goes on with another schedule.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options.h"

namespace fm::engine {

// `saved`: RunIdentity::optimization of the checkpoint, after `applied` updates. "the learning rate
// of the next step is 5.90e-04, it would have been 3.80e-05"; "" where it is the same, or not
// known.
std::string rate_change(const std::string& saved, const TrainOptions& now, std::int64_t applied);

}  // namespace fm::engine
