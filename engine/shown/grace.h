// The time between SIGTERM and SIGKILL, and whether a save ends in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fm::engine {

// What whoever ends the ranks is known to give.
struct Grace {
  std::string giver;        // "mpirun"; "--grace_s"
  double seconds = 0.0;     // between the rank's SIGTERM and its SIGKILL
  std::string longer = {};  // how its user gets more
  bool from_all = false;    // holds for a signal of whatever process, not of the launcher alone
  std::int64_t ends = 0;    // when a batch system ends the job, unix time; 0: not known
};

// A signal shortly before the job's end is its warning (--signal=TERM@120): then the end counts.
// `ago`: seconds since the signal came; `now`: unix time.
double seconds_left(const Grace& grace, double ago, double now);

// "a save takes 0.3 s; mpirun gives 1 s after SIGTERM". `save_s` 0: not known yet.
std::string grace_text(const Grace& grace, double save_s);
// Where a save takes longer than that: what is lost, and what helps. Else "".
std::string grace_warning(const Grace& grace, double save_s);

}  // namespace fm::engine
