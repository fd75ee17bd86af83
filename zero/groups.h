// Shard groups: the flat buffers that ZeRO cuts. One per unit, and one more for the head's end of
// a tied matrix, with the embedding's layout, so that both ends own the same slices (not where both
// ends write one gradient).
#pragma once

#include <string>
#include <vector>

#include "core/param_table.h"
#include "core/shard_plan.h"

namespace fm::zero {

struct Group {
  int unit = 0;
  bool tied_end = false;  // the head's end of the tied matrix; counted at the embedding's place
  int alias = -1;         // group whose weights and moments serve this one (same pipe rank)
  const core::ParamTable* table = nullptr;
  core::ShardMap map;
};

// All groups of one rank and what every store needs to know about them.
struct GroupLayout {
  std::vector<Group> groups;
  core::ShardPlan plan;
  core::SumOrder order = core::SumOrder::kFast;
  core::DType element = core::DType::kF32;  // of parameters; in bf16 their owners keep fp32 masters
  int dp_size = 1;
  int dp_rank = 0;
  int micros = 1;
  // Whole gradients that wait for their reduction at once, where each micro-batch is reduced; a
  // reduction is under way while backward writes into the next slot.
  int gradient_slots = 1;
  bool tied = false;  // the model's head uses the embedding's matrix
  // Both ends of the tied matrix write the gradient of group 0, which waits in a slot of its own.
  bool one_tied_gradient = false;

  int count() const { return static_cast<int>(groups.size()); }
  const Group& at(int group) const { return groups[static_cast<std::size_t>(group)]; }
  // Elements a rank keeps of a group under `home`, and where they begin in the flat buffer.
  core::Elements kept(int group, core::Home home) const {
    return home == core::Home::kEveryRank ? at(group).map.padded() : at(group).map.slice();
  }
  core::Elements first(int group, core::Home home) const {
    return home == core::Home::kEveryRank ? core::Elements(0) : at(group).map.first_of(dp_rank);
  }
  bool has_master() const { return element != core::DType::kF32; }
  core::Elements slice_first(int group) const { return at(group).map.first_of(dp_rank); }
};

// The named tensors inside flat elements [first, first + count) of a group; base points at `first`.
// Gaps and padding belong to no tensor.
std::vector<core::TensorSlice> cut_slices(const core::ParamTable& table, core::Elements first,
                                          core::Elements count, float* base);

// Zeroes what lies between and behind the parameters of a whole flat buffer [map.padded()].
void clear_gaps(const core::ParamTable& table, const core::ShardMap& map, float* whole);

}  // namespace fm::zero
