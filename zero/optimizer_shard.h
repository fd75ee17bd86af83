// Moments of the slices this rank updates, and the update.
#pragma once

#include <vector>

#include "core/buffer.h"
#include "optim/optimizer.h"
#include "zero/grad_store.h"
#include "zero/param_store.h"

namespace fm::zero {

// Invariant: moments of gaps and padding are zero.
// Thread:    the rank's thread.
// Lifetime:  layout and ledger outlive it.
class OptimizerShard {
 public:
  OptimizerShard(const GroupLayout& layout, core::Ledger& ledger,
                 const optim::OptimizerOptions& options);

  // Updates what this rank owns of the group: everything in ZeRO 0, its slice otherwise.
  void update(int group, const optim::UpdateScalars& scalars, ParamStore& params, GradStore& grads);

  // Moment `index` of this rank's slice, and of everything it keeps.
  float* slice(int group, int index);
  float* kept(int group, int index);
  int moments() const { return moments_; }

 private:
  const GroupLayout& layout_;
  optim::OptimizerOptions options_;
  int moments_;
  std::vector<core::Buffer> buffers_;  // group-major, moment-minor
};

}  // namespace fm::zero
