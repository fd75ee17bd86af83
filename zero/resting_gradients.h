// Finished gradients that rest in a store between their last reduction and their update.
#pragma once

#include <vector>

#include "offload/slice_store.h"
#include "zero/grad_store.h"
#include "zero/sleep_plan.h"

namespace fm::zero {

// Of flat parameters whose gradients take places of a ring in turn; others stay where they are, and
// nothing is to be done for them.
//
// Invariant: nothing is written into a place while bytes leave it or arrive there.
// Thread:    the rank's thread.
// Lifetime:  layout, store and gradients outlive it.
class RestingGradients {
 public:
  RestingGradients(const Layout& layout, SleepPlan plan, offload::SliceStore& store,
                   GradStore& grads);

  // Its place is free: before the first gradient is written there.
  void claim(int flat_param);
  // Begins to write this rank's finished slice to the store.
  void rest(int flat_param);
  // Begins to read it back into its place; and it is there.
  void fetch(int flat_param);
  void wake(int flat_param);
  void settle();

 private:
  offload::Move& move_of(int flat_param);
  bool rests(int flat_param) const { return plan_.has(Role::kGrads, flat_param); }

  const Layout& layout_;
  const SleepPlan plan_;
  offload::SliceStore& store_;
  GradStore& grads_;
  std::vector<offload::Move> moves_;  // by place, the last one that was begun
};

}  // namespace fm::zero
