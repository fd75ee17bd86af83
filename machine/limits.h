// What bounds this process, CPU time and memory, and how much of it was in use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"

namespace fm::machine {

// The control groups that may limit this process (Linux, Documentation/admin-guide/cgroup-v2.rst
// and cgroup-v1/).
struct ControlGroup {
  bool version_2 = false;
  std::filesystem::path folder;  // where its files are
};

// The groups of this process and those above them that may limit what `controller` ("cpu",
// "memory") counts, as far as they can be seen here.
// `root`: where proc and the paths that it names begin.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root);

// How much CPU time containers and batch systems let a job have: fewer CPUs' worth of it than there
// are CPUs to run on. Above 0: the least that the control groups of this process and those above
// them grant, as far as they can be seen here (cpu.max of version 2, cpu.cfs_quota_us of version 1;
// Linux, Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst). Nothing: no limit.
// `root`: where proc and the paths that it names begin.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

// What bounds the memory that ranks of a host may still take together.
struct MemoryLimit {
  std::string id;    // the same on all ranks that it bounds together, on no others
  std::string name;  // "MemAvailable of /proc/meminfo"
  core::Bytes available;
  // What lies there: all that a rank allocates, or what its device holds, or the host beside one.
  enum class Holds : std::uint8_t { kAll, kDevice, kHost };
  Holds holds = Holds::kAll;
  core::Bytes swap = {};  // of `available`: slow
};

// MemAvailable of the host, and of every limited control group of this process and those above them
// (memory.max of version 2, memory.limit_in_bytes of version 1) the limit less what is in use and
// cannot be dropped; the host's free swap counts as available to all. What cannot be read is no
// limit. `root`: where proc and the paths that it names begin.
std::vector<MemoryLimit> memory_limits(const std::filesystem::path& root = "/");

// The most memory that this process had in use at a time: resident pages at their peak, shared ones
// included. getrusage() would tell the peak of whatever process became this one through exec, such
// as a Python launcher's.
core::Bytes peak_memory();
// The resident pages now; 0 where the system does not say.
core::Bytes resident_memory();

// What the system's files say of this machine, in words. Text in, text out.

std::string cpu_model(const std::string& cpuinfo);           // of /proc/cpuinfo
std::string instruction_sets(const std::string& cpuinfo);    // those that kernels care about
std::string memory_line(const std::string& meminfo);         // of /proc/meminfo
std::string ranges(const std::vector<int>& sorted_numbers);  // {0, 1, 2, 5}: "0-2,5"

}  // namespace fm::machine
