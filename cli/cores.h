// The cores that this process may use, and how many threads follow from them.
#pragma once

#include <string_view>
#include <vector>

namespace fm::cli {

std::vector<int> allowed_cores();  // ascending; of sched_getaffinity
int online_cores();

struct CoreCounts {
  int allowed = 1;     // to this process
  int online = 1;      // of the host
  int local_size = 1;  // ranks on the host
};
// All allowed cores when the launcher bound them to this rank alone, otherwise this rank's part of
// those that all ranks share; at least 1.
int threads_for(const CoreCounts& counts);

// The threads of the outermost level that a value of OMP_NUM_THREADS asks for: N of "N" or "N,M".
// Throws UserError (10).
int threads_in(std::string_view omp_num_threads);

// OMP_NUM_THREADS when it is set, otherwise threads_for this process. Throws as threads_in.
int choose_threads(int local_size);

}  // namespace fm::cli
