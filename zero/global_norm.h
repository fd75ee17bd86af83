// The one global number: the squared L2 norm of the gradient over all data and pipe ranks, the same
// bits on every rank (ARCHITECTURE, "Norm and loss").
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "zero/grad_store.h"

namespace fm::zero {

// Sums of squares are fp64 per block of 1,024 elements in unit order. fast: blocks added in index
// order per (unit, owner slice), those numbers gathered and added in (unit, owner) order.
// canonical: all block sums gathered and added in one tree. The head's end of a tied matrix counts
// once, at the embedding's place.
//
// Thread:   the rank's thread; collective over both communicators.
// Lifetime: layout and communicators outlive it.
class GlobalNorm {
 public:
  // partials_of_rank: how many numbers each pipe rank contributes (see partial_count).
  GlobalNorm(const GroupLayout& layout, comm::Communicator& dp, comm::Communicator& pipe,
             std::vector<std::int64_t> partials_of_rank);

  static std::int64_t partial_count(const GroupLayout& layout);

  double squared(GradStore& grads);

 private:
  void gather_fast(GradStore& grads, double* out);
  void gather_canonical(GradStore& grads, double* out);

  const GroupLayout& layout_;
  comm::Communicator& dp_;
  comm::Communicator& pipe_;
  std::vector<std::int64_t> partials_of_rank_;
  std::vector<double> all_;     // every pipe rank's numbers, in order
  std::vector<double> blocks_;  // of one slice
  std::vector<double> gathered_;
};

}  // namespace fm::zero
