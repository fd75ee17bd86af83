// How much CPU time containers and batch systems let a job have: fewer CPUs' worth of it than there
// are CPUs to run on.
#pragma once

#include <filesystem>
#include <optional>

namespace fm::machine {

// CPUs' worth of time, above 0: the least that the control groups of this process and those above
// them grant, as far as they can be seen here (cpu.max of version 2, cpu.cfs_quota_us of version 1;
// Linux, Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst). Nothing: no limit.
// `root`: where proc and the paths that it names begin.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace fm::machine
