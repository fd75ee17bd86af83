// The ranks of one host and the memory that they share: one region per rank, mapped by all.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host_layout.h"
#include "comm/shm/region.h"
#include "comm/waiting.h"

namespace fm::comm {

// An address that is valid on every rank of the host.
struct SharedAddress {
  std::int32_t region = -1;  // host rank that allocated it; -1: memory of one process only
  // Joined memory: the part that is missing; the parts after it lie one part earlier. -1: none is.
  std::int32_t without = -1;
  std::int64_t offset = 0;  // bytes
};

// The futex word on which a rank sleeps while it waits for a peer in shared memory.
struct BellWords {
  alignas(128) std::atomic<std::uint32_t> rings = 0;
  alignas(128) std::atomic<std::uint32_t> listening = 0;
};

// Invariant: seats_[r] is the mapping of the region of host rank r, the r-th of the ranks of the
//            world that run on this host.
// Thread:    the rank's thread.
// Lifetime:  outlives every buffer and communicator in it.
class ShmHost {
 public:
  // The mapping of the region of a host rank: this process's own, or, for ranks that are threads of
  // this process, the owner's.
  struct Seat {
    std::byte* base = nullptr;
    std::shared_ptr<const void> keeps;  // keeps `base` valid
  };
  // Which side issues the memory fence between a rank that goes to sleep and a change by a peer:
  // the sleeper on behalf of all (membarrier), or every rank at each change.
  enum class Fence : std::uint8_t { kSleeper, kEverybody };
  ShmHost(std::shared_ptr<ShmRegion> own, int host_rank, std::vector<Seat> seats, Fence fence);

  int host_rank() const { return host_rank_; }
  int size() const { return static_cast<int>(seats_.size()); }
  core::MemorySource& own() { return *own_; }

  SharedAddress place_of(const void* data) const;
  // The address of a whole range that this rank has joined; otherwise the same as place_of().
  SharedAddress place_of_joined(const void* data) const;
  // Null for an address that is not shared.
  std::byte* at(SharedAddress place) const {
    if (place.region < 0) return nullptr;
    return seats_[static_cast<std::size_t>(place.region)].base + place.offset;
  }

  // Wakes a rank that sleeps. Call it after the change that the rank waits for.
  void ring(int host_rank) const;
  // cpus: CPUs that the ranks of this host may use; 0: all that are online.
  std::unique_ptr<Bell> make_bell(int cpus);

 private:
  BellWords& bell_of(int host_rank) const;

  std::shared_ptr<ShmRegion> own_;
  int host_rank_;
  std::vector<Seat> seats_;
  Fence fence_;
};

struct ShmMeeting {
  std::shared_ptr<ShmHost> host;             // of this rank; null when ranks cannot share memory
  std::string reason;                        // why they cannot; the same text on every rank
  std::shared_ptr<const HostLayout> layout;  // of the world's ranks
};

// Collective over `world`: finds the ranks that run on one host (the same kernel, process and
// network namespaces, and `label`), and maps the memory of the ranks of this host.
ShmMeeting meet_on_hosts(Communicator& world, const std::string& label);

}  // namespace fm::comm
