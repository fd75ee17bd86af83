// What follows from walking over a program: how many buffers of every pool are in use at once. The
// runtime allocates exactly what is predicted here; owned state is the layout's (zero/layout.h).
#pragma once

#include <span>

#include "core/types.h"
#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// What one unit needs beside its parameters.
struct UnitFootprint {
  core::Bytes kept;  // per micro-batch, from forward to backward
  core::Bytes parked;
  core::Bytes scratch;
  double forward_flops = 0.0;
};

// How many buffers of each pool are in use at once.
struct ActivationPeaks {
  int hidden = 0;  // hidden states and their gradients
  int kept = 0;    // what blocks keep for backward
  int parked = 0;  // what backward-inputs leave for backward-weights
};
ActivationPeaks activation_peaks(const Program& program, const Placement& units, bool recompute);
// Units whole in a slot at once.
int gather_peak(const Program& program);

// The pools of one rank.
struct PoolSizes {
  ActivationPeaks peaks;
  int gather_slots = 0;
  core::Bytes kept;    // largest
  core::Bytes parked;  // largest
  core::Bytes arena;   // largest scratch of a unit
};
// footprints: by unit.
PoolSizes pool_sizes(const Program& program, const Placement& units,
                     std::span<const UnitFootprint> footprints, bool recompute, int pipe_rank);

}  // namespace fm::pipeline
