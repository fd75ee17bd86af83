// The cores that this process may use, and how many threads follow from them.
#pragma once

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

// OMP_NUM_THREADS when it is set, otherwise threads_for this process.
int choose_threads(int local_size);

}  // namespace fm::cli
