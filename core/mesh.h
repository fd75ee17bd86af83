// The process mesh: pipe, data and model axes, in DeepSpeed's rank order
// (deepspeed/runtime/pipe/topology.py PipeModelDataParallelTopology): the model axis varies
// fastest, then data, then pipe.
#pragma once

#include <vector>

namespace fm::core {

struct Mesh {
  int pipe = 1;
  int data = 1;
  int model = 1;

  struct Position {
    int pipe_rank = 0;
    int dp_rank = 0;
    int tp_rank = 0;
  };

  constexpr int size() const { return pipe * data * model; }
  constexpr Position position_of(int world_rank) const {
    return {world_rank / (data * model), world_rank / model % data, world_rank % model};
  }
  constexpr int world_rank_of(const Position& at) const {
    return (at.pipe_rank * data + at.dp_rank) * model + at.tp_rank;
  }
  // World ranks that share everything with `world_rank` but the named axis, in axis order.
  std::vector<int> data_group(int world_rank) const {
    Position at = position_of(world_rank);
    std::vector<int> members;
    for (at.dp_rank = 0; at.dp_rank < data; ++at.dp_rank) members.push_back(world_rank_of(at));
    return members;
  }
  std::vector<int> pipe_group(int world_rank) const {
    Position at = position_of(world_rank);
    std::vector<int> members;
    for (at.pipe_rank = 0; at.pipe_rank < pipe; ++at.pipe_rank) {
      members.push_back(world_rank_of(at));
    }
    return members;
  }
};

}  // namespace fm::core
