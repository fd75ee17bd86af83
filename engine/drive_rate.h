// What the drives of one host do together, for a plan.
#pragma once

namespace fm::engine {

struct DriveRate {  // bytes per second
  double read = 0.0;
  double write = 0.0;
};

}  // namespace fm::engine
