// How long a step takes of which bytes come from a disk and go there: its program is played with
// two clocks, that of the rank and that of the disk, which moves bytes in the order in which
// instructions ask for them, while the rank computes.
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
};

// `rate`: this rank's part of what the drives of its host do.
struct TierTime {
  double computing = 0.0;  // seconds of a step, if no byte had to move
  double moving = 0.0;     // if nothing had to be computed
  double step = 0.0;       // both, as far as they do not run at the same time
};
TierTime time_of(const std::vector<TimedInstruction>& program, DriveRate rate);

}  // namespace fm::engine
