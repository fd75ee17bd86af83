// The passes that turn a schedule into an executable program. Each is a pure function.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// The duration of an instruction on a pipe rank, in any unit of time.
using InstructionTime = std::function<double(const Instruction& instruction, int pipe_rank)>;

// Replaces each chunk of a rank by its units: forwards ascending, backwards descending, without the
// units that have no backward. Unit-major, a run of forwards or backwards of one chunk takes all
// its micro-batches through a unit before the next one; backwards take blocks that are recomputed
// together (Placement::segment_blocks) as one. Losses in a run go before its backwards, and behind
// its forwards.
Program expand_units(const Program& scheduled, const Placement& units, int pipe_rank,
                     UnitOrder order = UnitOrder::kMicroMajor);

// Adds sends and receives to all ranks at once by paired lowering: when a producer ends, its send
// is appended to its rank and the matching receive to the consumer's. All programs are projections
// of one order of matched pairs, so no cycle can appear, even when a send waits for its receive.
// That order follows simulated time, so a receive never comes after an instruction that begins
// later. Throws BugError when the given orders deadlock by themselves.
std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units,
                                const InstructionTime& time);
// The same, where all blocks take equal times and a backward takes twice a forward.
std::vector<Program> insert_p2p(const std::vector<Program>& expanded, const Placement& units);
// The instruction at which the given orders deadlock: "pipe rank 1 at F0.3"; "" if they do not.
std::string deadlock_of(const std::vector<Program>& expanded, const Placement& units);

// Inserts a Recompute of each block of a segment before the first backward of the segment; after
// forward only the input of the segment's first block is kept (Placement::segment_blocks).
Program insert_recompute(const Program& program, const Placement& units);

}  // namespace fm::pipeline
