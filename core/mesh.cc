#include "core/mesh.h"

namespace fm::core {

std::vector<int> Mesh::data_group(int world_rank) const {
  Position at = position_of(world_rank);
  std::vector<int> members;
  for (at.dp_rank = 0; at.dp_rank < data; ++at.dp_rank) members.push_back(world_rank_of(at));
  return members;
}

std::vector<int> Mesh::pipe_group(int world_rank) const {
  Position at = position_of(world_rank);
  std::vector<int> members;
  for (at.pipe_rank = 0; at.pipe_rank < pipe; ++at.pipe_rank) members.push_back(world_rank_of(at));
  return members;
}

}  // namespace fm::core
