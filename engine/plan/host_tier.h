// Whether optimizer state lies in the host's memory beside devices that compute.
#pragma once

#include "engine/options.h"

namespace fm::engine {

// "offload_optimizer" to "cpu" where ranks have devices; where they compute on CPUs it lies there
// anyway, and this is false. Throws UserError for what no host updates.
bool state_on_host(const TrainOptions& options);

}  // namespace fm::engine
