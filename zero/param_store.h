// Where parameters live and how a unit becomes whole.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "zero/groups.h"

namespace fm::zero {

// Invariant: after a publish (or always, in ZeRO 0 and 3) every rank's view of a group is the
//            same; gaps and padding are zero.
// Thread:    the rank's thread.
// Lifetime:  layout, ledger and communicator outlive it.
class ParamStore {
 public:
  ParamStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp);

  // The whole flat buffer [padded] when every rank holds it; null otherwise (gather first).
  float* whole(int group);
  // This rank's slice [slice], the part it updates.
  float* slice(int group);
  // What this rank keeps: whole or slice; [kept(group, plan.params)].
  float* kept(int group);

  // Own slice -> whole group in `slot` [padded].
  comm::Pending gather(int group, float* slot);
  // Own updated slice -> every rank's whole buffer. ZeRO 1 and 2.
  comm::Pending publish(int group);

 private:
  int home_of(int group) const;

  const GroupLayout& layout_;
  comm::Communicator& dp_;
  std::vector<core::Buffer> buffers_;
};

}  // namespace fm::zero
