// Schedules that repeat one building block (pipeline/building_block.h), two chunks in a V.
// Notation: schedules.h.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

// V-Half (arXiv 2405.15362): half the memory of 1F1B, (p+2)/2 M rounded down, and about half of its
// bubble.
std::vector<Program> v_half(const PipeShape& shape);

// V-Min (arXiv 2405.15362): the least memory of a V, (p+4)/3 M rounded down, with two thirds of the
// bubble of 1F1B.
std::vector<Program> v_min(const PipeShape& shape);

// 1F1B-V (arXiv 2405.15362, appendix): a V with whole backwards. Keeps 2p/3 + 1 M, rounded down,
// with less than three quarters of the bubble of 1F1B.
std::vector<Program> one_f_one_b_v(const PipeShape& shape);

}  // namespace fm::pipeline
