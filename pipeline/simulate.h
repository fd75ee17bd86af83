// Predicts the time of a step: every pipe rank runs its program; the consumer of a received hidden
// state or gradient waits for it.
#pragma once

#include <functional>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// An instruction with its begin and end; they are equal where it costs nothing.
struct TimedInstruction {
  Instruction at;
  double begin = 0.0;
  double end = 0.0;
};

struct Simulation {
  double makespan = 0.0;
  // By pipe rank; instructions that take no time do not count as its first or last.
  std::vector<double> busy, first_start, last_end;
  std::vector<std::vector<TimedInstruction>> timeline;  // by pipe rank, in program order
  // 1 - busy / (ranks x makespan): the share of time that ranks wait.
  double bubble() const;
  // The longest time from the first to the last instruction of a rank: the paper's cost of a
  // schedule whose steps follow each other without a barrier (arXiv 2401.10241).
  double longest_stage() const;
};

// Simulates `steps` successive steps. With several steps a norm waits for every rank, a norm in
// parts for the previous rank, a tied gradient for its other end, and a validation for that of the
// next rank. Makespan, busy and timeline cover all steps. cost: the time of an instruction on a
// pipe rank, in any unit. Sends and receives are posted and never block; the consumer of a received
// value starts `comm` after its send at the earliest. Programs must have passed validate(); throws
// BugError when they wait in a cycle.
Simulation simulate(const std::vector<Program>& programs, const Placement& units,
                    const std::function<double(const Instruction&, int pipe_rank)>& cost,
                    double comm = 0.0, int steps = 1);

}  // namespace fm::pipeline
