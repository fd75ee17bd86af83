// Which launcher or scheduler would end the ranks, and how long it waits after SIGTERM.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/shown/grace.h"

namespace fm::cli {

// By the variables that it gives to its ranks; of several the one that waits least. `asked`:
// --grace_s, which wins; 0: nothing ends a save.
std::optional<engine::Grace> launcher_grace(
    const std::function<std::optional<std::string>(const std::string& name)>& environment,
    std::optional<std::int64_t> asked);

}  // namespace fm::cli
