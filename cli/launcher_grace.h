// Which launcher or scheduler would end the ranks, and how long it waits after SIGTERM.
#pragma once

#include <cstdint>
#include <optional>

#include "core/process.h"
#include "engine/shown/grace.h"

namespace fm::cli {

// By the variables that it gives to its ranks; of several the one that waits least. `asked`:
// --grace_s, which wins; 0: nothing ends a save.
std::optional<engine::Grace> launcher_grace(const core::Environment& environment,
                                            std::optional<std::int64_t> asked);

}  // namespace fm::cli
