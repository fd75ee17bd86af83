// How much memory the host and the control groups of containers and batch systems still let this
// process take.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/types.h"

namespace fm::machine {

// What bounds the memory that ranks of a host may still take together.
struct MemoryLimit {
  std::string id;    // the same on all ranks that it bounds together, on no others
  std::string name;  // "MemAvailable of /proc/meminfo"
  core::Bytes available;
};

// MemAvailable of the host, and of every limited control group of this process and those above them
// (memory.max of version 2, memory.limit_in_bytes of version 1) the limit less what is in use and
// cannot be dropped; the host's free swap counts as available to all. What cannot be read is no
// limit. `root`: where proc and the paths that it names begin.
std::vector<MemoryLimit> memory_limits(const std::filesystem::path& root = "/");

}  // namespace fm::machine
