// Where parameters live and how a unit becomes whole.
#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "core/device.h"
#include "core/work.h"
#include "offload/slice_store.h"
#include "zero/reserve.h"
#include "zero/sleeping_state.h"
#include "zero/slices_up.h"

namespace fm::zero {

// Who gathers, where that is not the data ranks as they are.
struct GatherRanks {
  comm::Communicator* across = nullptr;  // the same ranks, between whose hosts weights are narrow
  comm::Communicator* near = nullptr;    // those of this host, where the plan has a second copy
};

// Numbers are of the layout's element type. Slices that sleep are read by gather(), and are in
// a place of a ring while they are updated. Beside a device some lie in the host's memory.
//
// Invariant: after a publish (or always, where the plan has none) every rank's view of a flat
//            parameter is the same; gaps and padding are zero.
// Thread:    the rank's thread.
// Lifetime:  layout, ledger and communicator outlive it.
class ParamStore {
 public:
  ParamStore(const Layout& layout, const StateMemory& memory, comm::Communicator& dp,
             const GatherRanks& gathers = {});
  // Where the layout's parameters lie in the host's memory, and are gathered into this device's.
  void lie_beside(core::Device& device) { device_ = &device; }
  // Where the layout's parameters sleep; before the first of them is asked for.
  void sleep_in(offload::SliceStore& store);

  // The whole flat buffer [padded] when every rank holds or sees it; null otherwise (gather first).
  void* whole(int flat_param);
  // This rank's slice [slice], the part it updates.
  void* slice(int flat_param);
  // What this rank keeps and may write: whole or slice; [params.count].
  void* kept(int flat_param);

  // Own slice -> whole flat parameter in `slot` [padded]; from the ranks of this host alone, where
  // they have kept it. All data ranks gather, keep and change alike. A slice that sleeps is on its
  // way into the slot at once, and the ranks exchange their slices when this is waited for: all of
  // them wait for what they gather in the same order.
  comm::Pending gather(int flat_param, void* slot);
  // Where the plan has a second copy: keeps this rank's part of a slot that was gathered.
  void keep(const core::Work& work, int flat_param, const void* slot);
  // Parameters changed, or may have: what was kept is old.
  void changed();
  void changed(int flat_param);  // it alone
  // Own updated slice -> every rank's whole buffer. Where parameters lie once per host they are
  // there already, and this waits for the other owners.
  comm::Pending publish(int flat_param);

  // Slices that sleep; null: none does.
  SleepingState* asleep() { return asleep_ ? &*asleep_ : nullptr; }

 private:
  bool shared() const;
  void* buffer(int flat_param);

  const Layout& layout_;
  comm::Communicator& dp_;
  comm::Communicator& across_;
  comm::Communicator* near_;
  std::vector<core::Buffer> buffers_;
  std::vector<core::Buffer> secondary_;
  std::vector<bool> kept_;  // by home
  core::Device* device_ = nullptr;
  std::vector<core::Buffer> going_up_;
  offload::SliceStore* store_ = nullptr;
  std::optional<SlicesUp> up_;
  std::optional<SleepingState> asleep_;
};

}  // namespace fm::zero
