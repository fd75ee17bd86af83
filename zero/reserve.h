// Buffers as the layout lists them.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/buffer.h"
#include "zero/layout.h"

namespace fm::zero {

// That a store works with the data ranks that its layout is cut for.
template <class Ranks>
void check_ranks(const Layout& layout, const Ranks& dp) {
  layout.check_ranks(dp.rank(), dp.size());
}

// All of one role, in the order of the list. `dp`: the ranks that read it, for memory that others
// read; null where all of it is private.
std::vector<core::Buffer> reserve(const Layout& layout, Role role, const core::RankMemory& memory,
                                  comm::Communicator* dp);

}  // namespace fm::zero
