// Where gradients are written, how they are summed over micro-batches and ranks, and where the sum
// rests until the update.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "zero/groups.h"

namespace fm::zero {

// Two orders of sums (ARCHITECTURE, "Order of sums"):
//   fast       ZeRO 0/1 add micro-batches where they are written, then reduce once; ZeRO 2/3 reduce
//              each micro-batch to its owner, who adds in the order of micro-batches.
//   canonical  each micro-batch is reduced, then carried up a binary counter over micro-batches:
//              one tree over all slots of the step, whatever the layout.
// Where each micro-batch is reduced, backward writes into a slot. Ranks that share memory write
// their own part of it where its sum will rest (ShardPlan::own_part_in_place): the slot holds only
// what the other owners read.
//
// Invariant: gaps and padding of every buffer are zero whenever it is reduced or read.
// Thread:    the rank's thread.
// Lifetime:  layout, ledger and communicator outlive it.
class GradStore {
 public:
  GradStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp);

  // New step: nothing is written yet.
  void begin_step();

  // Where backward writes the gradient of one micro-batch [padded]: the store's own buffer, or a
  // slot when each micro-batch is reduced. `assign` for who writes first since the last reduction.
  // Groups of one unit are written side by side; a slot is free again when they are reduced.
  struct Destination {
    float* whole = nullptr;
    bool assign = true;
  };
  Destination destination(int group, int micro);

  // Sums over data ranks; micro < 0: the whole step at once.
  void reduce(int group, int micro);

  // Sum of squares of this rank's finished slice: fp64 per block of 1,024 elements, added in index
  // order. The slice is read only when the sum was not seen while the slice was summed.
  double squared(int group);
  // The slice was changed after its reduction.
  void changed(int group) { squares_[static_cast<std::size_t>(group)].reset(); }

  // The finished sum of this rank's slice [slice].
  float* slice(int group);
  // Everything this rank keeps [kept(group, plan.grads)]; ZeRO 0 updates all of it.
  float* kept(int group);

 private:
  struct Counter {  // level 0 is the group's own buffer
    std::vector<core::Buffer> upper;
  };

  struct Slot {
    float* whole = nullptr;  // [padded]
    std::unique_ptr<core::JoinedMemory> joined;
  };
  // A slot, and where the own part of micro-batch 0 and of the others lies when it is not in it.
  struct Slots {
    Slot first, later;
  };

  // A tied gradient waits while those of other units come and go.
  bool has_own_slot(int group) const { return layout_.one_tied_gradient && group == 0; }
  void make_incoming(core::Ledger& ledger);
  void make_slots(core::Ledger& ledger);
  Slot slot_at(int group, float* others, float* own);
  const Slot& slot(int group, int micro) const;
  // Where the sum of one micro-batch arrives.
  float* arrival(int group, int micro);
  void reduce_once(int group);
  void reduce_with_squares(int group, const float* whole, float* into);
  void reduce_scatter(int group, const float* whole, float* into, comm::SumVisitor* visitor);
  void carry(int group, int micro, float* arrived);
  void fold(int group);
  float* level(int group, int index);

  const GroupLayout& layout_;
  comm::Communicator& dp_;
  std::vector<core::Buffer> buffers_;
  std::vector<Counter> counters_;
  core::Buffer incoming_;
  core::Buffer tied_incoming_;
  std::vector<core::Elements> incoming_at_;
  core::Buffer slot_;
  core::Buffer tied_slot_;
  std::vector<Slots> slots_;
  std::vector<bool> written_;
  std::vector<std::optional<double>> squares_;
};

}  // namespace fm::zero
