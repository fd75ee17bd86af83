// The process mesh: pipe, data, sequence and model axes, in DeepSpeed's rank order
// (deepspeed/runtime/pipe/topology.py PipeModelDataParallelTopology): the model axis varies
// fastest, then sequence, then data, then pipe. Sequence ranks have parts of the same samples.
#pragma once

#include <vector>

namespace fm::core {

struct Mesh {
  int pipe = 1;
  int data = 1;
  int model = 1;
  int sequence = 1;

  struct Position {
    int pipe_rank = 0;
    int dp_rank = 0;
    int tp_rank = 0;
    int sp_rank = 0;
  };

  constexpr int size() const { return pipe * shards() * model; }
  // Ranks that ZeRO cuts a unit for: all that compute with the same weights.
  constexpr int shards() const { return data * sequence; }
  constexpr int shard_of(const Position& at) const { return at.dp_rank * sequence + at.sp_rank; }
  constexpr Position position_of(int world_rank) const {
    return {.pipe_rank = world_rank / (shards() * model),
            .dp_rank = world_rank / (sequence * model) % data,
            .tp_rank = world_rank % model,
            .sp_rank = world_rank / model % sequence};
  }
  constexpr int world_rank_of(const Position& at) const {
    return (at.pipe_rank * shards() + shard_of(at)) * model + at.tp_rank;
  }
  // World ranks that share everything with `world_rank` but the named axis (or axes), in their
  // order.
  std::vector<int> shard_group(int world_rank) const {
    Position at = position_of(world_rank);
    std::vector<int> members;
    for (at.dp_rank = 0; at.dp_rank < data; ++at.dp_rank) {
      for (at.sp_rank = 0; at.sp_rank < sequence; ++at.sp_rank) {
        members.push_back(world_rank_of(at));
      }
    }
    return members;
  }
  std::vector<int> sequence_group(int world_rank) const {
    return along(&Position::sp_rank, sequence, world_rank);
  }
  std::vector<int> model_group(int world_rank) const {
    return along(&Position::tp_rank, model, world_rank);
  }
  std::vector<int> pipe_group(int world_rank) const {
    return along(&Position::pipe_rank, pipe, world_rank);
  }

 private:
  std::vector<int> along(int Position::*axis, int size, int world_rank) const {
    Position at = position_of(world_rank);
    std::vector<int> members;
    for (at.*axis = 0; at.*axis < size; ++(at.*axis)) members.push_back(world_rank_of(at));
    return members;
  }
};

}  // namespace fm::core
