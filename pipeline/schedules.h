// Schedules: the order of micro-batches on one pipe rank, as Load, Forward, Loss and Backward over
// the rank's chunk of units ("unit 0" until expand_units).
#pragma once

#include "pipeline/instruction.h"

namespace fm::pipeline {

struct ScheduleShape {
  int pipe_ranks = 1;
  int micros = 1;
  int units = 1;  // chunks per pipe rank; these two schedules have one
};

using Schedule = Program (*)(const ScheduleShape& shape, int pipe_rank);

// All forwards, then all backwards, first in first out (arXiv 1811.06965). Keeps `micros` live.
Program gpipe(const ScheduleShape& shape, int pipe_rank);

// One forward, one backward (arXiv 1806.03377, 2006.09503 "1F1B flush"): rank r warms up with
// min(p-1-r, m) forwards and keeps at most min(p-r, m) micro-batches live.
Program one_f_one_b(const ScheduleShape& shape, int pipe_rank);

// Forward only, for evaluation: L F X for each micro-batch.
Program forward_only(const ScheduleShape& shape, int pipe_rank);

}  // namespace fm::pipeline
