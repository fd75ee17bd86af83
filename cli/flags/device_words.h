// What a program computes on, as its words say.
#pragma once

#include "cli/flags/flag_values.h"
#include "engine/device_options.h"

namespace fm::cli {

// Of --device: cpu, cuda, cuda:N (or gpu, gpu:N), auto or fake. Throws UserError (10).
engine::DeviceOptions read_device(const FlagValues& flags);

}  // namespace fm::cli
