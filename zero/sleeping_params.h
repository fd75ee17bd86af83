// Slices of parameters that sleep in a store.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "core/tensor_slice.h"
#include "offload/slice_store.h"
#include "zero/layout.h"
#include "zero/sleep_plan.h"

namespace fm::zero {

// Between fetch() and store() a slice is in its place of the ring, for its update: as it was where
// the update reads it, which is in fp32; elsewhere the update writes all of it, from its master.
//
// Invariant: the newest slot of a flat parameter has its numbers of the last step that was
// accepted. Thread:    the rank's thread. Lifetime:  layout, store and ring outlive it.
class SleepingParams {
 public:
  using Place = std::span<std::byte>;
  SleepingParams(const Layout& layout, offload::SliceStore& store, std::vector<Place> ring);

  // This rank's slice comes into its part of `whole`, at once; the others' parts of it come when
  // the answer is waited for, from `ranks`, which wait in the same order.
  comm::Pending gather(int flat_param, const comm::Span& whole, comm::Communicator& ranks);

  // The slice is on its way into the place whose last occupant was stored.
  void fetch(int flat_param);
  // It is there.
  void wait(int flat_param);
  // It is on its way to the slot that is written next.
  void store(int flat_param);
  // All that was on its way has arrived.
  void settle();
  // What was stored since then is the newest from now on, or never will be.
  void accept();
  void reject();

  // Numbers of this rank's newest slice, as files see them.
  std::shared_ptr<core::TensorSource> numbers(int flat_param) const;

 private:
  core::Bytes newest(int flat_param) const;
  int next_slot(int flat_param) const;
  Place place_of(int flat_param) const;
  offload::Move& move_of(int flat_param);

  const Layout& layout_;
  offload::SliceStore& store_;
  SleepPlan plan_;
  std::vector<Place> ring_;
  std::vector<offload::Move> moves_;  // by place
  std::vector<int> slot_;             // by flat parameter: the newest
  std::set<int> written_;             // flat parameters, in this step
};

}  // namespace fm::zero
