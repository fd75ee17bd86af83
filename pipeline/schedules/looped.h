// Schedules of several chunks per pipe rank, dealt in a loop. Notation: schedules.h.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// Interleaved 1F1B (arXiv 2104.04473): v chunks per rank, dealt in a loop. Rank r warms up with
// 2(p-1-r) + (v-1)N entries of the table, N the size of a group. Bubble (p-1)(F+B)/v; keeps
// (2(p-1-r) + (v-1)p + 1)/v M.
Program interleaved_1f1b(const PipeShape& shape, int pipe_rank);

// Looped breadth-first (arXiv 2211.05953): every chunk runs all micro-batches before the next one,
// so its weights are gathered twice per step whatever m is. Bubble (p-1)(F+B)/v; keeps m M.
// Backward takes the newest micro-batch first, as PyTorch does; where gradients must be added in
// the order of micro-batches, the oldest one.
Program looped_bfs(const PipeShape& shape, int pipe_rank);

// Interleaved 1F1B with split backward (ScheduleInterleavedZeroBubble of PyTorch): rank r warms up
// with (p-1-r) + (v-1)N entries of the table; weight halves are delayed by r inputs.
// Bubble (p-1)(F+I-W)/v; keeps p M.
Program interleaved_zb(const PipeShape& shape, int pipe_rank);

}  // namespace fm::pipeline
