// What the black boxes of a start say together: who waits for whom, and because of whom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/blackbox/ring_file.h"

namespace fm::blackbox {

// A rank is inside a verb that others of its group have not come to.
struct BoxWait {
  std::size_t ring = 0;        // of RingFolder::rings
  std::vector<int> for_ranks;  // world ranks, sorted; empty: all have come
  std::string what;            // "reduce_scatter #318 of group dp[0-3], 270336 x fp32"
};

struct CrashReport {
  RingFolder folder;
  std::vector<ProcessLife> lives;  // by ring
  std::vector<BoxWait> waits;
  std::optional<Divergence> divergence;
  std::vector<int> absent;          // world ranks without a ring
  std::vector<std::string> causes;  // a sentence each; empty: nothing is wrong
};

// life: by ring, as life_of says.
CrashReport crash_report(RingFolder folder, std::vector<ProcessLife> lives);

// For people. `last`: so many records of each rank, in one table; 0: none.
std::string report_text(const CrashReport& report, std::size_t last);
// One JSON object.
std::string report_json(const CrashReport& report, std::size_t last);

}  // namespace fm::blackbox
