// What the drives of one host do together, for a plan.
#pragma once

#include <algorithm>

namespace fm::engine {

struct DriveRate {  // bytes per second
  double read = 0.0;
  double write = 0.0;
  double both = 0.0;  // reads and writes at once, together; 0: they share the drive's time

  double together() const { return both > 0.0 ? both : 2.0 / (1.0 / read + 1.0 / write); }
  // Of a direction, while the other one moves, too: half of that.
  double read_beside() const { return std::min(read, together() / 2.0); }
  double write_beside() const { return std::min(write, together() / 2.0); }
  DriveRate part_of(int ranks) const { return {read / ranks, write / ranks, both / ranks}; }
};

}  // namespace fm::engine
