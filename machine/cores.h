// How many threads a rank computes with, and on which cores. plan_cores is
// arithmetic, core_facts asks the system and the launcher.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/meet/world.h"
#include "core/process.h"

namespace fm::machine {

inline constexpr int kMostThreads = 1024;  // more is a slip of the keyboard

// How this rank came to the cores that it may use.
enum class Binding : std::uint8_t {
  kOthers,   // by nobody, by the user, or by a tool of the user's: it stays
  kDefault,  // by a launcher that was not asked to: OpenMPI's mpirun binds to one core, or socket
};

struct CoreFacts {
  std::vector<int> allowed = {};  // CPUs that this process may use, ascending
  // What the job has on this host: the CPUs of each core (more than one: hardware threads),
  // neighbours first.
  std::vector<std::vector<int>> cores = {};
  std::optional<double> quota = {};  // CPUs' worth of time that the job gets here; none: no limit
  int local_rank = 0;
  int local_size = 1;  // ranks on this host
  Binding binding = Binding::kOthers;
  std::optional<int> flag = {};  // --threads
  std::string omp = {};          // OMP_NUM_THREADS, empty when it is not set
  enum class OmpBy : std::uint8_t { kUser, kTorchrun } omp_by = OmpBy::kUser;
};

struct CorePlan {
  int threads = 1;
  std::vector<int> cpus;  // to bind this rank to; empty: it stays as it is
  int host_cpus = 1;      // that the job can keep busy on this host
  std::string why;        // "2 ranks x 4 threads: 8 cores shared out"
};

// --threads, else the user's OMP_NUM_THREADS, else this rank's part of the job's cores, or of the
// whole CPUs in its quota, which are fewer in a container with a CPU limit. The same
// number on all ranks of a host, unless they are bound to different numbers of cores. A default
// binding that leaves fewer cores than threads is widened to this rank's part.
// Throws UserError (10) as threads_in.
CorePlan plan_cores(const CoreFacts& facts);

// The threads of the outermost level that a value of OMP_NUM_THREADS asks for: N of "N" or "N,M".
// Throws UserError (10).
int threads_in(std::string_view omp_num_threads);

// What the system and the launcher say about the cores of this process.
std::string content_of(const std::string& path);  // "" when it cannot be read
std::vector<int> allowed_cpus();                  // ascending; of sched_getaffinity
int online_cpus();

// "0-2,5" of the kernel: {0, 1, 2, 5}. Empty for anything else.
std::vector<int> cpus_in(const std::string& list);

// Whether OpenMPI bound this rank without having been asked to: it says that it did, and neither a
// binding, a set of CPUs, a rank file nor a mapping with PE=N was asked for.
Binding binding_of(const core::Environment& environment);

// Looks at /proc of this process and of those that started it, and at the cores of the host.
CoreFacts core_facts(const comm::LaunchInfo& launch, std::optional<int> threads_flag);

// plan_cores of this process, which is bound as planned; threads that are made later inherit it.
CorePlan take_cores(const comm::LaunchInfo& launch, std::optional<int> threads_flag);

}  // namespace fm::machine
