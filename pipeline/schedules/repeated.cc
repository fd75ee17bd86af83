#include "pipeline/schedules/repeated.h"

#include "pipeline/building_block.h"

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
