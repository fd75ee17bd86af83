#include "zero/reserve.h"

#include "core/check.h"

namespace fm::zero {
namespace {

const HostMemory& host_of(const StateMemory& memory) {
  FM_CHECK(memory.host != nullptr, "memory of the host beside a device needs a source");
  return *memory.host;
}

core::MemorySource& source_of(const Reservation& at, const StateMemory& memory,
                              comm::Communicator* dp) {
  if (at.tier == core::Tier::kHost) {
    return at.crosses ? host_of(memory).crossed : host_of(memory).own;
  }
  const bool moves = at.in_ring && memory.source.of_host();  // from and to a disk
  if (at.where == Reservation::Where::kPrivate) return moves ? core::heap_pages() : memory.source;
  FM_CHECK(dp != nullptr, "memory that others read needs their communicator");
  if (at.where == Reservation::Where::kPeers) return dp->memory();
  FM_CHECK(dp->common_memory() != nullptr, "parameters of one host need shared memory");
  return *dp->common_memory();
}

}  // namespace

std::vector<core::Buffer> reserve(const Layout& layout, Role role, const StateMemory& memory,
                                  comm::Communicator* dp) {
  std::vector<core::Buffer> out;
  for (const Reservation& at : layout.reservations) {
    if (at.role != role) continue;
    core::Ledger& ledger = at.tier == core::Tier::kHost ? host_of(memory).ledger : memory.ledger;
    out.emplace_back(ledger, at.account, core::bytes_of(at.count, at.element),
                     source_of(at, memory, dp), core::bytes_of(at.share, at.element));
  }
  return out;
}

}  // namespace fm::zero
