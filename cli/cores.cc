#include "cli/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "core/check.h"
#include "core/text.h"

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

int threads_in(std::string_view omp_num_threads) {
  constexpr int kMost = 1024;  // more is a slip of the keyboard: no rank has as many cores
  std::optional<int> first;
  for (const std::string& level : core::split(omp_num_threads, ',')) {
    int threads = 0;
    const char* const end = level.data() + level.size();
    const auto [stop, error] = std::from_chars(level.data(), end, threads);
    const bool whole = error == std::errc() && stop == end;
    FM_USER_CHECK(whole && threads >= 1 && threads <= kMost,
                  "OMP_NUM_THREADS must be a whole number from 1 to ", kMost,
                  ", or a list N,M of them; correct or unset it (OMP_NUM_THREADS=\"",
                  omp_num_threads, "\")");
    if (!first) first = threads;
  }
  return *first;
}

int choose_threads(int local_size) {
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr && *threads != '\0') return threads_in(threads);
  return threads_for({.allowed = static_cast<int>(allowed_cores().size()),
                      .online = online_cores(),
                      .local_size = local_size});
}

}  // namespace fm::cli
