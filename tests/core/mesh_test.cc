// Rank order of deepspeed/runtime/pipe/topology.py: axes (pipe, data, model), row-major.
#include "core/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace fm::core {
namespace {

using Group = std::vector<int>;

// Every distinct group that `group_of` makes, over all ranks.
template <class GroupOf>
std::set<Group> groups(const Mesh& mesh, GroupOf group_of) {
  std::set<Group> out;
  for (int rank = 0; rank < mesh.size(); ++rank) out.insert((mesh.*group_of)(rank));
  return out;
}

TEST(Mesh, OrdersRanksAsDeepSpeedDoes) {
  const Mesh mesh{.pipe = 2, .data = 2, .model = 2};
  for (int rank = 0; rank < 8; ++rank) {
    const Mesh::Position at = mesh.position_of(rank);
    EXPECT_EQ(4 * at.pipe_rank + 2 * at.dp_rank + at.tp_rank, rank);
    EXPECT_EQ(mesh.world_rank_of(at), rank);
  }
  EXPECT_EQ(groups(mesh, &Mesh::pipe_group), (std::set<Group>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(mesh, &Mesh::shard_group), (std::set<Group>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
}

TEST(Mesh, FirstDataRankOfPipeRankOneIsRankTwoOfTwoByTwo) {
  const Mesh mesh{.pipe = 2, .data = 2, .model = 1};
  EXPECT_EQ(mesh.world_rank_of({.pipe_rank = 1, .dp_rank = 0, .tp_rank = 0}), 2);
}

TEST(Mesh, UnevenAxesStayOneToOne) {
  const Mesh mesh{.pipe = 3, .data = 4, .model = 2};
  EXPECT_EQ(mesh.size(), 24);
  std::set<int> seen;
  for (int pipe = 0; pipe < 3; ++pipe) {
    for (int data = 0; data < 4; ++data) {
      seen.insert(mesh.world_rank_of({pipe, data, 0}));
      seen.insert(mesh.world_rank_of({pipe, data, 1}));
    }
  }
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_EQ(mesh.shard_group(17), (Group{17, 19, 21, 23}));  // pipe 2, model 1
  EXPECT_EQ(mesh.pipe_group(17), (Group{1, 9, 17}));         // data 0, model 1
}

TEST(Mesh, SequenceRanksLieBetweenDataAndModelRanks) {
  const Mesh mesh{.pipe = 2, .data = 2, .model = 2, .sequence = 3};
  EXPECT_EQ(mesh.size(), 24);
  for (int rank = 0; rank < 24; ++rank) {
    const Mesh::Position at = mesh.position_of(rank);
    EXPECT_EQ(12 * at.pipe_rank + 6 * at.dp_rank + 2 * at.sp_rank + at.tp_rank, rank);
    EXPECT_EQ(mesh.world_rank_of(at), rank);
  }
  EXPECT_EQ(mesh.sequence_group(21), (Group{19, 21, 23}));  // pipe 1, data 1, model 1
  EXPECT_EQ(mesh.model_group(21), (Group{20, 21}));
  EXPECT_EQ(mesh.shard_group(21), (Group{13, 15, 17, 19, 21, 23}));
}

}  // namespace
}  // namespace fm::core
