// What a plan can find out about the drives of this machine.
#pragma once

#include "engine/options.h"
#include "engine/shown/tier_lines.h"

namespace fm::engine {

// Size and free bytes of the file systems of all folders, each counted once. Absent or 0 where
// nothing sleeps on NVMe, or a folder's file system cannot be asked.
PlanDrives drives_here(const OffloadOptions& offload);

// What they read and write, measured on files of their own for a second or so, where all folders
// are there and can be written to.
void measure_drives(const OffloadOptions& offload, PlanDrives& drives);

}  // namespace fm::engine
