// Where gradients are written, how they are summed over micro-batches and ranks, and where the sum
// rests until the update.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "core/work.h"
#include "zero/block_squares.h"
#include "zero/reserve.h"

namespace fm::zero {

// Zeroes what lies between and behind the parameters of a whole gradient [map.padded()].
void clear_gaps(const core::Work& work, const FlatParam& flat_param, float* whole);

// Sees a sum as its parts become final, and knows its squares in the end. Of sums in a device's
// memory nobody sees parts.
class SumOfSquares : public comm::SumVisitor {
 public:
  double total() const { return total_; }

 protected:
  double total_ = 0.0;
};

// Two orders of sums (docs/numbers.md, "Order of sums"):
//   fast       ZeRO 0/1 add micro-batches where they are written, then reduce once; ZeRO 2/3 reduce
//              each micro-batch to its owner, who adds in the order of micro-batches.
//   canonical  each micro-batch is reduced, then carried up a binary counter over micro-batches:
//              one tree over all slots of the step, whatever the layout. Where ranks fill no
//              subtree (Layout::single_slots), it is not reduced on its way: the gradients of all
//              ranks come to the owner, and each is carried up.
// Where each micro-batch is reduced, backward writes into a slot. Ranks that share memory write
// their own part of it where its sum will rest (ShardPlan::own_part_in_place): the slot holds only
// what the other owners read.
//
// Invariant: gaps and padding of every buffer are zero whenever it is reduced or read. Reductions
//            end in the order in which they were posted.
// Thread:    the rank's thread.
// Lifetime:  layout, ledger and communicator outlive it.
class GradStore {
 public:
  // `waits_later`: reductions are under way until settle(), or until somebody needs their slot or
  // their flat parameter; otherwise reduce() waits.
  GradStore(const Layout& layout, const core::RankMemory& memory, comm::Communicator& dp,
            bool waits_later = false);
  // What it takes of a device's memory for numbers that the host reads.
  static core::Bytes answers_on_device(const Layout& layout);

  // New step: nothing is written yet.
  void begin_step();

  // Where backward writes the gradient of one micro-batch [padded]: the store's own buffer, or a
  // slot when each micro-batch is reduced. `assign` for who writes first since the last reduction.
  // Flat parameters of one unit are written side by side; a slot is free again when they are
  // reduced.
  struct Destination {
    float* whole = nullptr;
    bool assign = true;
  };
  Destination destination(const core::Work& work, int flat_param, int micro);

  // Sums over data ranks; micro < 0: the whole step at once.
  void reduce(const core::Work& work, int flat_param, int micro);
  // All reductions are finished, or those of one flat parameter; before anything below.
  void settle(const core::Work& work);
  void settle(const core::Work& work, int flat_param);

  // All slices are finished: of a device, the host reads their squares by one wait, for the calls
  // below. Not of those whose squares were kept, or whose places others take in turn.
  void take_squares(const core::Work& work);
  // Sum of squares of this rank's finished slice: fp64 per block of 1,024 elements, added in index
  // order. The slice is read only when the sum was not seen while the slice was summed.
  double squared(const core::Work& work, int flat_param);
  // The squares of its blocks, in order, without those of `repeats`; until the next call.
  std::span<const double> block_squares(const core::Work& work, int flat_param,
                                        std::span<const core::FlatRange> repeats);
  // Keeps those, or what squared() returns, until the next step: before the finished slice leaves
  // its place. With `limit` > 0 also what any_reaches() wants to know.
  enum class Squares : std::uint8_t { kSum, kBlocks };
  void keep_squares(const core::Work& work, int flat_param, Squares squares,
                    std::span<const core::FlatRange> repeats);
  void keep_reaches(const core::Work& work, int flat_param, float limit);
  // Whether an element of this rank's finished slices reaches `limit` > 0 or -limit, or is NaN.
  bool any_reaches(const core::Work& work, float limit);
  // The slice was changed after its reduction.
  void changed(int flat_param);

  // The finished sum of this rank's slice [slice].
  std::span<float> slice(int flat_param);
  // Everything this rank keeps [grads.count]; ZeRO 0 updates all of it.
  std::span<float> kept(int flat_param);

 private:
  struct Slot {
    float* whole = nullptr;  // [padded]
    std::unique_ptr<core::JoinedMemory> joined;
  };
  // A slot, and where the own part of micro-batch 0 and of the others lies when it is not in it.
  struct Slots {
    Slot first, later;
  };
  // A reduction that is under way.
  struct Reduction {
    int flat_param = 0;
    int micro = -1;
    int slot = -1;  // whose gradient it reads; -1: that lies where it is kept
    float* arrived = nullptr;
    std::unique_ptr<SumOfSquares> sum = nullptr;  // null: the squares are taken later
    float* adds_to = nullptr;                     // of a device: what arrived is added to this
    comm::Pending pending = {};
  };

  void make_slots();
  Slot slot_at(int flat_param, float* others, float* own);
  const Slot& slot(int flat_param, int micro) const;
  // The slot that holds, or will hold, the gradient of a flat parameter.
  int slot_of(int flat_param) const;
  void take_slot(const core::Work& work, int flat_param);
  // Where the sum of one micro-batch arrives, or what it is made of.
  float* arrival(int flat_param, int slot, int micro);
  Reduction reduce_once(const core::Work& work, int flat_param);
  Reduction reduce_micro(const core::Work& work, int flat_param, int micro);
  comm::Pending reduce_scatter(int flat_param, const float* whole, float* into,
                               comm::SumVisitor* visitor);
  void finish(const core::Work& work, Reduction& reduction);
  // Finishes the reductions up to the last one of a flat parameter, or of a slot.
  void finish_up_to(const core::Work& work, int Reduction::*place, int value);
  void finish_first(const core::Work& work, std::ptrdiff_t count);
  void carry_round(const core::Work& work, const Reduction& round);
  void carry(const core::Work& work, int flat_param, int leaf, float* arrived);
  void fold(const core::Work& work, int flat_param);
  float* level(int flat_param, int index);
  // Whether it could, by its squares; whether it does; whether any does of so many that were asked.
  bool may_reach(const core::Work& work, int flat_param, float limit);
  bool reaches(const core::Work& work, int flat_param, float limit);
  bool any_reached(const core::Work& work, std::size_t asked);
  bool is_under_way(int flat_param) const;

  const Layout& layout_;
  comm::Communicator& dp_;
  std::vector<core::Buffer> buffers_;
  std::vector<core::Buffer> counters_;  // levels 1 and up; level 0 is the gradient itself
  std::vector<core::Buffer> incoming_, tied_incoming_;
  std::vector<core::Buffer> slot_, tied_slot_;
  std::vector<Slots> slots_;  // by flat parameter and slot
  std::vector<int> slot_of_flat_param_;
  int last_slot_ = 0;
  bool waits_later_;
  std::deque<Reduction> under_way_;
  std::vector<bool> written_;
  std::vector<std::optional<double>> squares_;
  std::vector<std::vector<double>> kept_blocks_;  // by flat parameter; empty: not kept
  std::vector<std::optional<bool>> kept_reaches_;
  std::vector<std::size_t> buffer_of_;  // by flat parameter
  // Of all slices that take_squares() takes, then of one slice: [beside_, ...).
  BlockSquares blocks_;
  std::vector<std::int64_t> places_;  // there, by flat parameter, -1: none; empty on this CPU
  std::vector<std::vector<core::FlatRange>> repeats_;  // as places_
  std::int64_t beside_ = 0;
  std::vector<bool> taken_;  // by flat parameter
  std::span<const double> all_squares_;
  core::Answers<std::int32_t> reaches_;  // of a device by flat parameter, else of one
};

}  // namespace fm::zero
