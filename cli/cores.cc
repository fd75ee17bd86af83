#include "cli/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace fm::cli {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int online_cores() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

int threads_for(const CoreCounts& counts) {
  // Few cores of many: a launcher bound them to this rank.
  const bool bound = counts.allowed <= counts.online / counts.local_size;
  return std::max(1, bound ? counts.allowed : counts.allowed / counts.local_size);
}

int choose_threads(int local_size) {
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    return std::max(1, std::atoi(threads));
  }
  return threads_for({.allowed = static_cast<int>(allowed_cores().size()),
                      .online = online_cores(),
                      .local_size = local_size});
}

}  // namespace fm::cli
