// Whether optimizer state and parameters leave the devices that compute for the host beside them.
#pragma once

#include "engine/options.h"

namespace fm::engine {

// "offload_optimizer" where ranks have devices: this CPU updates what lies in its memory ("cpu") or
// sleeps on NVMe. False where they compute on CPUs. Throws UserError for what no host updates.
bool updates_on_host(const TrainOptions& options);
// The same to "cpu" alone.
bool state_on_host(const TrainOptions& options);
// "offload_param" where ranks have devices: slices leave them for the host's memory ("cpu"), or
// sleep on NVMe. Throws UserError where the host does not update them.
bool params_leave_device(const TrainOptions& options);

}  // namespace fm::engine
