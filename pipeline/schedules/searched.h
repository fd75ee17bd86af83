// Schedules that are searched for by the times of each rank and under a limit of memory. Notation:
// schedules.h.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// ZB-1p and ZB-2p (arXiv 2401.10241, section 3.1): a search for the places of the two halves of
// backward, by the times of each rank and under a memory limit: p M, and 2p M. Micro-batches are
// placed in turn, forwards down the pipe and backward-inputs up; weight halves fill idle times and
// free memory. The best result of eight ways to decide is used.
std::vector<Program> zb_1p(const PipeShape& shape);
std::vector<Program> zb_2p(const PipeShape& shape);

// ZB-V by search (arXiv 2405.15362, "V-ZB"): like zb-v, for unequal times and under a memory limit,
// p M. Every rank takes the instruction that can begin first; weight halves fill the gaps. The best
// of several ways to decide and of zb-v itself is used, by the longest stage and then by the
// makespan.
std::vector<Program> zb_v_auto(const PipeShape& shape);

}  // namespace fm::pipeline
