// How much memory the host and the control groups of containers and batch systems still let this
// process take.
#pragma once

#include <filesystem>
#include <vector>

#include "engine/memory_limit.h"

namespace fm::cli {

// MemAvailable of the host, and of every limited control group of this process and those above them
// (memory.max of version 2, memory.limit_in_bytes of version 1) the limit less what is in use and
// cannot be dropped; the host's free swap counts as available to all. What cannot be read is no
// limit. `root`: where proc and the paths that it names begin.
std::vector<engine::MemoryLimit> memory_limits(const std::filesystem::path& root = "/");

}  // namespace fm::cli
