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
  // The pipe ranks of embedding and head; when they differ, each owns a buffer for the gradient of
  // the other.
  struct Ends {
    int embedding = 0;
    int head = 0;
  };
  TiedReduction(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& pipe,
                const Ends& ends);

  void run(GradStore& grads);

 private:
  const GroupLayout& layout_;
  comm::Communicator& pipe_;
  Ends ends_;
  int embedding_ = -1;  // groups on this rank, -1: at the other end
  int head_ = -1;
  core::Buffer other_;
};

}  // namespace fm::zero
