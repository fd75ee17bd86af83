// How long a step takes of which bytes come from a disk and go there: its program is played with
// two clocks, that of the rank and that of the disk, which moves bytes while the rank computes, of
// each direction in the order in which instructions ask for them.
#pragma once

#include <vector>

#include "core/types.h"
#include "engine/drive_rate.h"
#include "pipeline/instruction.h"

namespace fm::engine {

struct TimedInstruction {
  pipeline::Op op = pipeline::Op::kReport;
  int unit = -1;         // -1: none; of a loss it is the head's
  double seconds = 0.0;  // of the rank
  core::Bytes read = {};
  core::Bytes written = {};
  int arrays = 1;   // that these bytes are of, of one size: each moves by itself
  int behind = -1;  // of a Fetch: the unit whose Store makes its place free, -1: none
};

// `rate`: this rank's part of what the drives of its host do.
struct TierTime {
  double computing = 0.0;  // seconds of a step, if no byte had to move
  double moving = 0.0;     // if nothing had to be computed
  double step = 0.0;       // both, as far as they do not run at the same time
};
TierTime time_of(const std::vector<TimedInstruction>& program, DriveRate rate);

}  // namespace fm::engine
