// Counts how many buffers of every pool a program uses at once. The runtime allocates exactly
// these; zero/layout.h lists the owned state.
#pragma once

#include <span>

#include "core/types.h"
#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// The memory that one unit needs besides its parameters.
struct UnitFootprint {
  core::Bytes kept;  // per micro-batch, from forward to backward
  core::Bytes parked;
  core::Bytes scratch;
  core::Bytes between;  // of the head, per micro-batch, from the first pass over its tiles on
  double forward_flops = 0.0;
};

// How many buffers of each pool are in use at once.
struct ActivationPeaks {
  int hidden = 0;   // hidden states and their gradients
  int kept = 0;     // activations that blocks save for backward
  int parked = 0;   // gradients that backward-input saves for backward-weight
  int between = 0;  // what passes over the tiles of the head know of rows
};
ActivationPeaks activation_peaks(const Program& program, const Placement& units, bool recompute);
// The most units that are gathered in slots at once.
int gather_peak(const Program& program);

// The pools of one rank.
struct PoolSizes {
  ActivationPeaks peaks;
  int gather_slots = 0;
  core::Bytes kept;    // largest
  core::Bytes parked;  // largest
  core::Bytes between;
  core::Bytes arena;  // largest scratch of a unit
};
// footprints: by unit.
PoolSizes pool_sizes(const Program& program, const Placement& units,
                     std::span<const UnitFootprint> footprints, bool recompute, int pipe_rank);

}  // namespace fm::pipeline
