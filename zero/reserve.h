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

// The host's memory beside a device that computes: what this CPU alone touches, and what copies
// between both read and write.
struct HostMemory {
  core::Ledger& ledger;
  core::MemorySource& own;
  core::MemorySource& crossed;
};

// Where a rank keeps its state.
struct StateMemory : core::RankMemory {
  StateMemory(const core::RankMemory& memory,  // NOLINT(google-explicit-constructor)
              const HostMemory* beside = nullptr)
      : RankMemory(memory), host(beside) {}
  StateMemory(core::Ledger& book)  // NOLINT(google-explicit-constructor)
      : StateMemory(core::RankMemory(book)) {}
  const HostMemory* host;  // null: nothing lies there
};

// All of one role, in the order of the list. `dp`: the ranks that read it, for memory that others
// read; null where all of it is private.
std::vector<core::Buffer> reserve(const Layout& layout, Role role, const StateMemory& memory,
                                  comm::Communicator* dp);

}  // namespace fm::zero
