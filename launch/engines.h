// Which engine started this process: one row of a table, or none.
#pragma once

#include "comm/meet/launch_info.h"
#include "core/process.h"

namespace fm::launch {

// By the first engine of the table in engines.cc whose variables are there; else alone. Under
// mpirun, RANK and WORLD_SIZE without TORCHELASTIC_* are leftovers of the shell and are ignored.
// Throws UserError for values that are not numbers or contradict each other, and where several
// processes seem to be started in another way (each would silently be a world of its own).
comm::LaunchInfo detect_launch(const core::Environment& environment);

// The world rank that detect_launch finds, 0 where it finds an error. Never throws UserError.
int rank_if_known(const core::Environment& environment);

// The decision, a line for each part of it, for people: what `fmengine-train --where` prints.
std::string where_text(const core::Environment& environment);

}  // namespace fm::launch
