// Where gradients are written, how they are summed over micro-batches and ranks, and where the sum
// rests until the update.
#pragma once

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
//
// Invariant: gaps and padding of every buffer are zero whenever it is reduced or read.
// Thread:    the rank's thread.
// Lifetime:  layout, ledger and communicator outlive it.
class GradStore {
 public:
  GradStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp);

  // New step: nothing is written yet.
  void begin_step();

  // Where backward writes the gradient of one micro-batch: the store's own buffer, or `slot`
  // [padded] when each micro-batch is reduced. `first` tells whether to assign (true) or add.
  struct Destination {
    float* whole = nullptr;
    bool assign = true;
  };
  Destination destination(int group, float* slot);

  // Sums over data ranks; micro < 0: the whole step at once. `slot` as in destination().
  void reduce(int group, int micro, float* slot);

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

  void reduce_once(int group);
  void reduce_scatter(int group, const float* whole, float* into, bool last);
  void add_fast(int group, int micro, const float* arrived);
  void add_last(int group, const float* arrived);
  void carry(int group, int micro, float* arrived);
  void fold(int group);
  float* level(int group, int index);

  const GroupLayout& layout_;
  comm::Communicator& dp_;
  std::vector<core::Buffer> buffers_;
  std::vector<Counter> counters_;
  core::Buffer incoming_;
  std::vector<bool> written_;
  std::vector<std::optional<double>> squares_;
};

}  // namespace fm::zero
