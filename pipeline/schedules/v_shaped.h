// Schedules of two chunks per pipe rank in a V, written by hand. Notation: schedules.h.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// Handcrafted ZB-V (arXiv 2405.15362; ScheduleZBVZeroBubble of PyTorch): two chunks per rank in a
// V, so the loss is on the rank of the tokens. No bubble from first to last instruction of a rank
// where F = I = W and m >= 2p - 1; keeps p M on every rank.
Program zb_v(const PipeShape& shape, int pipe_rank);

// DualPipeV (deepseek-ai/DualPipe, DeepSeek-V3 report, arXiv 2412.19437): the eight steps of
// DualPipe with both directions folded into a V. A forward and a backward that DualPipe overlaps
// run one after the other here. Needs m >= 2p; keeps (p + 1/2) M.
Program dualpipe_v(const PipeShape& shape, int pipe_rank);

}  // namespace fm::pipeline
