// Schedules of one chunk per pipe rank, in the order of the ranks. Notation: schedules.h.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// GPipe (arXiv 1811.06965): all forwards, then all backwards, first in first out.
// Bubble (p-1)(F+B); keeps m M on every rank. Where all micro-batches go through a unit before the
// next (UnitOrder::kUnitMajor) it is the schedule layer-major: every unit's weights and state are
// needed once per phase, whatever m is (GreedySnake, arXiv 2512.17570).
Program gpipe(const PipeShape& shape, int pipe_rank);

// One forward, one backward (arXiv 1806.03377, 2006.09503 "1F1B flush"): rank r warms up with
// min(p-1-r, m) forwards. Bubble (p-1)(F+B); keeps min(p-r, m) M.
Program one_f_one_b(const PipeShape& shape, int pipe_rank);

// ZB-H1 and ZB-H2 (Zero Bubble Pipeline Parallelism, ICLR 2024, arXiv 2401.10241): weight halves
// run later and fill the idle times of 1F1B. ZB-H1: bubble (p-1)(F+I-W), keeps about p M. ZB-H2
// warms up twice as long: (p-1)(F+I-2W) from first to last instruction of a rank, (2p-1) M.
Program zb_h1(const PipeShape& shape, int pipe_rank);
Program zb_h2(const PipeShape& shape, int pipe_rank);

}  // namespace fm::pipeline
