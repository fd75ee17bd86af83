// A schedule by itself: how long its step takes and what it keeps, without a model. Every chunk is
// one block that costs its share of the rank's costs; the embedding and the head cost nothing.
#pragma once

#include <string>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"
#include "pipeline/simulate.h"

namespace fm::pipeline {

// Units, sends and receives for `scheduled` (make_programs).
struct StudiedPrograms {
  Placement units;
  std::vector<Program> lowered;  // by pipe rank
};
StudiedPrograms lower_for_study(const std::vector<Program>& scheduled, const PipeShape& shape);
// Where `scheduled` waits for ever, in words; "": nowhere.
std::string deadlock_of(const std::vector<Program>& scheduled, const PipeShape& shape);

// By shape.costs.
Simulation simulate_schedule(const std::vector<Program>& scheduled, const PipeShape& shape);

// Most micro-batches that each rank keeps at once: a chunk counts its share of the rank's chunks,
// from its Forward to its Backward or backward-weight. Chunks before `first` keep nothing. By pipe
// rank.
std::vector<double> peak_activations(const std::vector<Program>& scheduled, const PipeShape& shape,
                                     int first = 0);

}  // namespace fm::pipeline
