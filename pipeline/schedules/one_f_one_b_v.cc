// 1F1B-V (arXiv 2405.15362, appendix): a V with whole backwards. Keeps 2p/3 + 1 M, rounded down,
// with less than three quarters of the bubble of 1F1B.
#include "pipeline/building_block.h"
#include "pipeline/schedules.h"

namespace fm::pipeline {

std::vector<Program> one_f_one_b_v(const PipeShape& shape) {
  const auto ranks = static_cast<std::size_t>(shape.pipe_ranks);
  BuildingBlock block;
  block.backward = BuildingBlock::Backward::kWhole;
  block.moves = BuildingBlock::Moves::kAll;
  block.starts.resize(ranks);
  int clock = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) block.starts[rank][0] = clock++;
  for (std::size_t rank = ranks; rank-- > 0;) block.starts[rank][1] = clock++;
  if (ranks % 3 == 0) clock += 3;
  std::size_t backwards = (2 * ranks + 1) % 3;  // so that groups of three end where they must
  const auto take_two = [&](int& start) {
    start = clock;
    clock += ++backwards % 3 == 0 ? 5 : 2;  // three idle units after every third backward
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) take_two(block.starts[rank][2]);
  for (std::size_t rank = ranks; rank-- > 0;) take_two(block.starts[rank][3]);
  return repeat_block(block, shape);
}

}  // namespace fm::pipeline
