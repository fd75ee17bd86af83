// Where parameters live and how a unit becomes whole.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "zero/reserve.h"

namespace fm::zero {

// Numbers are of the layout's element type.
//
// Invariant: after a publish (or always, where the plan has none) every rank's view of a flat
//            parameter is the same; gaps and padding are zero.
// Thread:    the rank's thread.
// Lifetime:  layout, ledger and communicator outlive it.
class ParamStore {
 public:
  ParamStore(const Layout& layout, const core::RankMemory& memory, comm::Communicator& dp);

  // The whole flat buffer [padded] when every rank holds or sees it; null otherwise (gather first).
  void* whole(int flat_param);
  // This rank's slice [slice], the part it updates.
  void* slice(int flat_param);
  // What this rank keeps and may write: whole or slice; [params.count].
  void* kept(int flat_param);

  // Own slice -> whole flat parameter in `slot` [padded].
  comm::Pending gather(int flat_param, void* slot);
  // Own updated slice -> every rank's whole buffer. Where parameters lie once per host they are
  // there already, and this waits for the other owners.
  comm::Pending publish(int flat_param);

 private:
  bool shared() const;
  int home_of(int flat_param) const;
  void* buffer(int flat_param);

  const Layout& layout_;
  comm::Communicator& dp_;
  std::vector<core::Buffer> buffers_;
};

}  // namespace fm::zero
