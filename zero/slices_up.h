// Slices of parameters that sleep in a store, on their way to a device.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "core/device.h"
#include "offload/slice_store.h"

namespace fm::zero {

// A slice is read into a place of the host's memory, copied into its part of the whole, and
// exchanged there. As many as there are places are read ahead; others when they are waited for.
//
// Invariant: while one has no place, none that was asked for later takes one: who is waited for in
//            the order of asking finds one free.
// Thread:    the rank's thread.
// Lifetime:  outlives what it answers with; device, store and ranks outlive it.
class SlicesUp {
 public:
  struct Ends {
    core::Device& device;
    offload::SliceStore& store;
    comm::Communicator& ranks;
  };
  SlicesUp(const Ends& ends, std::vector<core::Buffer> places);
  ~SlicesUp();
  SlicesUp(const SlicesUp&) = delete;
  SlicesUp& operator=(const SlicesUp&) = delete;

  // From `at` on in the store. All ranks wait for what they gather in the same order.
  comm::Pending gather(core::Bytes at, const comm::Span& whole);

 private:
  class OnItsWay;
  struct Place {
    core::Buffer memory;
    bool taken = false;
    core::EventPtr left;  // who had it is on the device
  };

  // -1: all are taken.
  int take_place();

  Ends ends_;
  std::vector<Place> places_;
  int without_place_ = 0;
};

}  // namespace fm::zero
