// What ranks of a host write for each other, one set per member and group, in the member's region.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/shm/host.h"
#include "comm/wire/fabric.h"

namespace fm::comm {

inline constexpr std::uint64_t kShmRing = 8;    // operations that may be posted and not yet done
inline constexpr core::Bytes kShmInline(4096);  // payloads up to here travel in the words

// A member's part of an operation. `from`: its contribution, unless it is in the words.
struct Posting {
  Verb verb = Verb::kBarrier;
  core::DType dtype = core::DType::kF32;
  std::int32_t root = 0;
  core::Bytes bytes;  // of the contribution
  Place from;
};

// Collectives. Operation n of the group uses entry n % kShmRing; the entry is free again when every
// member's `done` has passed the operation that used it before.
//
// Invariant: written by the owner only; tickets and done never decrease.
// Thread:    readers follow `ticket` and `done` with acquire.
struct MemberWords {
  struct Entry {
    // Operation n is posted when this is n + 1. In one cache line with what it announces, and apart
    // from the others, because neighbouring lines are fetched in pairs.
    alignas(128) std::atomic<std::uint64_t> ticket = 0;
    Posting posting;
    alignas(64) std::byte payload[kShmInline.count()];
  };
  alignas(128) std::atomic<std::uint64_t> done = 0;  // operations whose inputs were read
  Entry entries[kShmRing];
};

// Messages. The owner sends by `sent` and `postings` of its channel to a peer, and counts in
// `taken` what it has received from that peer.
struct ChannelWords {
  static constexpr std::uint64_t kRing = 4;
  alignas(128) std::atomic<std::uint64_t> sent = 0;
  Posting postings[kRing];
  alignas(128) std::atomic<std::uint64_t> taken = 0;
};

}  // namespace fm::comm
