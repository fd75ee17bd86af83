// A group of ranks that share memory: the words through which they synchronise, and the
// communicator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm/host.h"
#include "comm/verbs/peer_communicator.h"
#include "comm/wire/fabric.h"

namespace fm::comm {

// The words are written by one member and read by the others: one set per member and group, in the
// member's region.
inline constexpr std::uint64_t kShmRing = 8;    // operations that may be posted and not yet done
inline constexpr core::Bytes kShmInline(4096);  // payloads up to here travel in the words

// A member's announcement of an operation. `from`: its contribution, unless it is in the words.
struct Posting {
  Verb verb = Verb::kBarrier;
  core::DType dtype = core::DType::kF32;
  std::int32_t root = 0;
  core::Bytes bytes;  // of the contribution
  SharedAddress from;
};

// Collectives. Operation n of the group uses entry n % kShmRing; the entry is free again when every
// member's `done` has passed the operation that used it before.
//
// Invariant: written by the owner only; tickets and done never decrease.
// Thread:    readers follow `ticket` and `done` with acquire.
struct MemberWords {
  struct Entry {
    // Operation n is posted when this is n + 1. In one cache line with the posting, and 128 bytes
    // from the next entry, because CPUs fetch neighbouring lines in pairs.
    alignas(128) std::atomic<std::uint64_t> ticket = 0;
    Posting posting;
    alignas(64) std::byte payload[kShmInline.count()];
  };
  alignas(128) std::atomic<std::uint64_t> done = 0;  // operations whose inputs this member has read
  Entry entries[kShmRing];
};

// Messages. The owner sends with `sent` and `postings` of its channel to a peer, and counts in
// `taken` the messages that it has received from that peer.
struct ChannelWords {
  static constexpr std::uint64_t kRing = 4;
  alignas(128) std::atomic<std::uint64_t> sent = 0;
  Posting postings[kRing];
  alignas(128) std::atomic<std::uint64_t> taken = 0;
};

// The members of one group of ranks that share memory, and their words.
//
// Invariant: words(m) is the address of member m's block in this process.
// Thread:    the rank's thread.
// Lifetime:  shared by the communicator and its operations.
class ShmGroup {
 public:
  // Collective over `wire`, whose members are `members` (host ranks, in rank order): exchanges the
  // addresses of the words.
  ShmGroup(std::shared_ptr<ShmHost> host, Communicator& wire, std::vector<int> members,
           Group group);

  int rank() const { return group_.rank; }
  int size() const { return static_cast<int>(members_.size()); }
  const Group& group() const { return group_; }
  const std::vector<int>& members() const { return members_; }
  ShmHost& host() const { return *host_; }
  const std::shared_ptr<ShmHost>& shared_host() const { return host_; }

  MemberWords& words(int member) const;
  // The words that `owner` writes about its messages with `peer`.
  ChannelWords& channel(int owner, int peer) const;
  void ring_all() const;
  void ring(int member) const { host_->ring(members_[static_cast<std::size_t>(member)]); }
  MemberWords::Entry& entry(int member, std::uint64_t sequence) const {
    return words(member).entries[sequence % kShmRing];
  }
  // First member that has not posted operation `sequence`, or is not done with it; -1 for none.
  int first_not_posted(std::uint64_t sequence) const;
  int first_not_done(std::uint64_t sequence) const;
  // Whether this rank may write the entry of operation `sequence`: it posts in order, and all
  // members have read the entry's previous operation.
  bool may_post(std::uint64_t sequence);
  void count_post() { ++posted_; }
  int world_rank(int member) const { return group_.world_ranks[static_cast<std::size_t>(member)]; }

 private:
  std::shared_ptr<ShmHost> host_;
  std::vector<int> members_;
  Group group_;
  // The words of each member. They are never released: a slower peer may still read what this rank
  // wrote about its last operation.
  std::vector<std::byte*> blocks_;
  std::uint64_t posted_ = 0;    // number of operations of this rank
  std::uint64_t all_done_ = 0;  // number of operations that all members are known to be done with
};

// The eight verbs between ranks of one host: contributions are read in place.
//
// Bytes that a rank reads and writes when its buffers come from memory(), for p ranks and N bytes
// of payload:
//   all_gather      reads and writes (p-1) x N
//   reduce_scatter  reads p x N, writes N
//   all_reduce      reads N, writes N: every rank sums its part and writes it to all ranks
//   all_to_all      reads and writes (p-1) x N
//   broadcast       reads and writes N
//   send, receive   the receiver copies N
// Contributions of at most 4,096 bytes travel in the words, in one round; larger ones take a second
// round, in which members announce that they have read them. Private memory is copied first.
//
// Collective over `wire`, whose members all run on this host; host_ranks: theirs, in rank order.
// `wire` is used for setup only.
std::unique_ptr<Communicator> make_shm_communicator(std::unique_ptr<PeerCommunicator> wire,
                                                    std::shared_ptr<ShmHost> host,
                                                    std::vector<int> host_ranks);

}  // namespace fm::comm
