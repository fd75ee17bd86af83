// What the flags say of the data, where a row of cli/flags/flags.cc does not read them.
#pragma once

#include "engine/options.h"

namespace fm::cli {

class FlagValues;

// Throws UserError (10).
void read_data(const FlagValues& flags, engine::TrainOptions& options);

}  // namespace fm::cli
