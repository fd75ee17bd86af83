// The embedding and the head in tiles of their matrix (Placement::add_tiles).
#pragma once

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// For an expanded program of a pipe rank. With e and t the tiles of the two ends, h the head:
//
//   F0.0 -> F0.e1 .. F0.eK F0.0         each writes the rows of its tokens; the unit finishes them
//   B0.0 -> I0.0 W0.e1 .. W0.eK W0.0
//   X0   -> F0.h F0.t1 .. F0.tK         the norm; the maxima of the rows of logits
//           C0.t1 .. C0.tK              the sums of exponentials
//           W0.t1 .. W0.tK              gradients of the rows, and of the norm's output
//           X0                          the loss, and the norm's backward
//
// Tiles ascend, because each adds to what those before it have left. Where instructions of several
// micro-batches follow each other, all of them go through a tile before the next one.
Program insert_tiles(const Program& expanded, const Placement& units);

}  // namespace fm::pipeline
