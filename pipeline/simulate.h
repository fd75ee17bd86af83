// Predicted time of a step: every pipe rank runs its program, receives wait for their sends.
#pragma once

#include <functional>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/split_units.h"

namespace fm::pipeline {

struct Simulation {
  double makespan = 0.0;
  std::vector<double> busy;  // by pipe rank
  // 1 - busy / (ranks x makespan): the share of the machine that waits.
  double bubble() const;
};

// cost: time of an instruction on a pipe rank, any unit; sends do not block, a receive ends `comm`
// after its send. Programs must have passed validate().
Simulation simulate(const std::vector<Program>& programs, const UnitRow& row,
                    const std::function<double(const Instruction&, int pipe_rank)>& cost,
                    double comm = 0.0);

}  // namespace fm::pipeline
