// Parameters that become whole from slices that sleep.
#pragma once

#include "comm/communicator.h"
#include "core/device.h"
#include "core/types.h"
#include "offload/slice_store.h"

namespace fm::zero {

// This rank's slice, from `at` on in its store, is on its way into its part of `whole` at once. The
// ranks exchange their slices when the answer is waited for: they wait for what they gather in the
// same order.
comm::Pending gather_from(offload::SliceStore& store, core::Bytes at, const comm::Span& whole,
                          comm::Communicator& ranks);

// The same from the host's memory beside the device that `whole` is of. The slice stays as it is
// until what is waited for has come.
comm::Pending gather_up(core::Device& device, const void* slice, const comm::Span& whole,
                        comm::Communicator& ranks);

}  // namespace fm::zero
