// Predicted time of a step: every pipe rank runs its program; what consumes a received hidden state
// or gradient waits for it.
#pragma once

#include <functional>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// An instruction and when it ran; what costs nothing ends where it begins.
struct TimedInstruction {
  Instruction at;
  double begin = 0.0;
  double end = 0.0;
};

struct Simulation {
  double makespan = 0.0;
  // By pipe rank; what takes no time neither begins nor ends a rank's work.
  std::vector<double> busy, first_start, last_end;
  std::vector<std::vector<TimedInstruction>> timeline;  // by pipe rank, in program order
  // 1 - busy / (ranks x makespan): the share of the machine that waits.
  double bubble() const;
  // From the first to the last instruction of a rank, the most of all ranks: the paper's cost of a
  // schedule whose steps follow each other without a barrier (arXiv 2401.10241).
  double longest_stage() const;
};

// `steps` that follow each other: of several, the norm waits for every rank, in parts for the rank
// before, a tied gradient for its other end, and a validation for that of the rank behind.
// Makespan, busy and timeline are of all.
// cost: time of an instruction on a pipe rank, any unit. Sends and receives are posted and block
// nothing: what consumes a received value starts at the earliest `comm` after its send. Programs
// must have passed validate(); BugError when they wait in a circle.
Simulation simulate(const std::vector<Program>& programs, const Placement& units,
                    const std::function<double(const Instruction&, int pipe_rank)>& cost,
                    double comm = 0.0, int steps = 1);

}  // namespace fm::pipeline
