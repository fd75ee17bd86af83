// What bounds the memory that ranks of a host may still take together. Read by cli/memory_limits.
#pragma once

#include <string>

#include "core/types.h"

namespace fm::engine {

struct MemoryLimit {
  std::string id;    // the same on all ranks that it bounds together, on no others
  std::string name;  // "MemAvailable of /proc/meminfo"
  core::Bytes available;
};

}  // namespace fm::engine
