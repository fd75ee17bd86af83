// The ranks of one host and the memory they share: one region per rank, mapped by all.
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

// An address that every rank of the host understands.
struct Place {
  std::int32_t region = -1;  // host rank that allocated it; -1: memory of one process only
  // Joined memory: this part is not there, and those behind it lie one part nearer. -1: all are.
  std::int32_t without = -1;
  std::int64_t offset = 0;  // bytes
};

// Every wait for a peer in shared memory sleeps on its own word here.
struct BellWords {
  alignas(128) std::atomic<std::uint32_t> rings = 0;
  alignas(128) std::atomic<std::uint32_t> listening = 0;
};

// Invariant: seats_[r] is where this process sees the region of host rank r, the r-th of the ranks
//            of the world that run here.
// Thread:    the rank's thread.
// Lifetime:  outlives every buffer and communicator in it.
class ShmHost {
 public:
  // Where the region of a host rank is: mapped here, or (ranks of this very process) its owner's.
  struct Seat {
    std::byte* base = nullptr;
    std::shared_ptr<const void> keeps;  // what must live for `base` to be valid
  };
  // Who makes sure that a sleeper and a change cannot miss each other: the one who goes to sleep,
  // for all (membarrier), or everybody at each change.
  enum class Fence : std::uint8_t { kSleeper, kEverybody };
  ShmHost(std::shared_ptr<ShmRegion> own, int host_rank, std::vector<Seat> seats, Fence fence);

  int host_rank() const { return host_rank_; }
  int size() const { return static_cast<int>(seats_.size()); }
  core::MemorySource& own() { return *own_; }

  Place place_of(const void* data) const;
  // Of a whole range that this rank has joined; what place_of() says of any other.
  Place place_of_joined(const void* data) const;
  // Null for a place that is not shared.
  std::byte* at(Place place) const {
    if (place.region < 0) return nullptr;
    return seats_[static_cast<std::size_t>(place.region)].base + place.offset;
  }

  // Wakes a rank that sleeps. After the change it should see.
  void ring(int host_rank) const;
  // cpus: that the ranks of this host may use; 0: all that are online.
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
  std::string reason;                        // then: why, the same words on every rank
  std::shared_ptr<const HostLayout> layout;  // of the world's ranks
};

// Collective over `world`: finds who runs on one host (one kernel, one process and one network
// namespace, the same `label`), and maps the memory of the ranks of this host.
ShmMeeting meet_on_hosts(Communicator& world, const std::string& label);

}  // namespace fm::comm
