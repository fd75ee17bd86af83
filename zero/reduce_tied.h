// The shared matrix of a tied model has a gradient from each end. Both ends add them alike.
#pragma once

#include "comm/communicator.h"
#include "core/buffer.h"
#include "zero/grad_store.h"

namespace fm::zero {

// Head + embedding, once, after both sums over micro-batches and ranks are finished; both ends then
// hold the same bits.
//
// Thread:   the rank's thread; collective over the pipe ranks of both ends.
// Lifetime: layout and communicator outlive it.
class TiedReduction {
 public:
  TiedReduction(const Layout& layout, const core::RankMemory& memory, comm::Communicator& pipe);

  void run(const core::Work& work, GradStore& grads);

 private:
  const Layout& layout_;
  comm::Communicator& pipe_;
  std::vector<core::Buffer> other_;
};

}  // namespace fm::zero
