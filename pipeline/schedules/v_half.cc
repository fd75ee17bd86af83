// V-Half (arXiv 2405.15362): half the memory of 1F1B, (p+2)/2 M rounded down, and about half of its
// bubble.
#include "pipeline/building_block.h"
#include "pipeline/schedules.h"

namespace fm::pipeline {

std::vector<Program> v_half(const PipeShape& shape) {
  const int ranks = shape.pipe_ranks;
  const int apart = ranks % 2 == 0 ? 3 : 0;  // else two instructions would have one unit of time
  BuildingBlock block;
  for (int rank = 0; rank < ranks; ++rank) {
    block.starts.push_back({2 * rank, 3 * ranks - rank - 2, 3 * ranks + apart + 2 * rank - 1,
                            6 * ranks + apart - rank - 2});
  }
  return repeat_block(block, shape);
}

}  // namespace fm::pipeline
