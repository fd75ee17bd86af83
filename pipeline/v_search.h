// A greedy order of a V with split backward, for given times and a limit of memory.
#pragma once

#include <span>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// How a rank chooses between instructions that can begin at the same time.
struct VSearchWay {
  bool forwards_first = false;         // of chunk 1, before backward-inputs
  bool weights_in_small_gaps = false;  // also where that delays what comes next
};
std::span<const VSearchWay> all_v_search_ways();

// By pipe rank; empty when `limit` micro-batches per rank are too few.
std::vector<Program> search_v(const PipeShape& shape, double limit, const VSearchWay& way);

}  // namespace fm::pipeline
