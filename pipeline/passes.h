// The passes between a schedule and a program that runs. Each is a pure function.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// Of an instruction on a pipe rank, in any unit of time.
using InstructionTime = std::function<double(const Instruction& at, int pipe_rank)>;

// Each chunk of a rank becomes its units: forwards ascending, backwards descending, as far as they
// have one.
Program expand_units(const Program& scheduled, const Placement& units, int pipe_rank);

// Adds sends and receives to all ranks at once by paired lowering: when a producer ends, its send
// is appended here and the matching receive there. All lists are projections of one order of
// matched pairs, so no cycle can appear, even when a send waits for its receive. That order is the
// one of time, so that a receive does not stand behind what begins later. BugError when the given
// orders deadlock by themselves.
std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units,
                                const InstructionTime& time);
// With blocks that take equal times, and a backward twice a forward's.
std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units);
// Where the given orders wait for each other for ever: "pipe rank 1 at F0.3"; "": nowhere.
std::string deadlock_of(const std::vector<Program>& expanded, const Placement& units);

// Before the first backward of a segment of blocks a Recompute of each of them; after forward only
// the input of the segment's first block is kept (Placement::segment_blocks).
Program insert_recompute(const Program& program, const Placement& units);

}  // namespace fm::pipeline
