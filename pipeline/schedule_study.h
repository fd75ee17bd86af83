// Studies a schedule without a model: the time of its step and the memory that it keeps. Every
// chunk is one block that has its share of the rank's costs; the embedding and the head cost
// nothing.
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
// Describes where `scheduled` deadlocks; "" if it does not.
std::string deadlock_of(const std::vector<Program>& scheduled, const PipeShape& shape);

// Simulates with shape.costs.
Simulation simulate_schedule(const std::vector<Program>& scheduled, const PipeShape& shape);

// By pipe rank, the most micro-batches that it keeps at once, from Forward to Backward or
// backward-weight; each chunk counts as its share of the rank. Chunks before `first` keep nothing.
std::vector<double> peak_activations(const std::vector<Program>& scheduled, const PipeShape& shape,
                                     int first = 0);

}  // namespace fm::pipeline
