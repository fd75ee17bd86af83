// V-Min (arXiv 2405.15362): the least memory of a V, (p+4)/3 M rounded down, with two thirds of the
// bubble of 1F1B.
#include "pipeline/building_block.h"
#include "pipeline/schedules.h"

namespace fm::pipeline {

std::vector<Program> v_min(const PipeShape& shape) {
  const int ranks = shape.pipe_ranks;
  const int apart = ranks % 3 == 0 ? 2 : 0;  // else two instructions would have one unit of time
  BuildingBlock block;
  for (int rank = 0; rank < ranks; ++rank) {
    block.starts.push_back(
        {rank, 2 * ranks - rank - 1, 2 * ranks + apart + rank, 4 * ranks + apart - rank - 1});
  }
  return repeat_block(block, shape);
}

}  // namespace fm::pipeline
