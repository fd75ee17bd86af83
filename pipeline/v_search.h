// A greedy search for the order of a V schedule with split backward, for given times and a memory
// limit.
#pragma once

#include <span>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// How a rank chooses between instructions that can begin at the same time.
struct VSearchWay {
  bool forwards_first = false;         // forwards of chunk 1 before backward-inputs
  bool weights_in_small_gaps = false;  // also where that delays the next instruction
};
std::span<const VSearchWay> all_v_search_ways();

// By pipe rank; empty when `limit` micro-batches per rank are too few.
std::vector<Program> search_v(const PipeShape& shape, double limit, const VSearchWay& way);

}  // namespace fm::pipeline
