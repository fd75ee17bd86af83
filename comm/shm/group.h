// Members of one group of ranks that share memory, and the words they write for each other.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm/host.h"
#include "comm/shm/words.h"
#include "comm/verbs/peer_communicator.h"

namespace fm::comm {

// Invariant: words(m) is member m's block as this process sees it.
// Thread:    the rank's thread.
// Lifetime:  shared by the communicator and its operations.
class ShmGroup {
 public:
  // Collective over `wire`, whose members are `members` (host ranks, in rank order): exchanges the
  // places of the words.
  ShmGroup(std::shared_ptr<ShmHost> host, Communicator& wire, std::vector<int> members,
           Group group);

  int rank() const { return group_.rank; }
  int size() const { return static_cast<int>(members_.size()); }
  const Group& group() const { return group_; }
  const std::vector<int>& members() const { return members_; }
  ShmHost& host() const { return *host_; }
  const std::shared_ptr<ShmHost>& shared_host() const { return host_; }

  MemberWords& words(int member) const;
  // What `owner` writes about its messages with `peer`.
  ChannelWords& channel(int owner, int peer) const;
  void ring_all() const;
  void ring(int member) const { host_->ring(members_[static_cast<std::size_t>(member)]); }
  MemberWords::Entry& entry(int member, std::uint64_t sequence) const {
    return words(member).entries[sequence % kShmRing];
  }
  // First member that has not posted operation `sequence`, or is not done with it; -1 for none.
  int first_not_posted(std::uint64_t sequence) const;
  int first_not_done(std::uint64_t sequence) const;
  // Whether the entry of operation `sequence` is this rank's to write: it posts in order, and
  // everybody has read what the entry held.
  bool may_post(std::uint64_t sequence);
  void count_post() { ++posted_; }
  int world_rank(int member) const { return group_.world_ranks[static_cast<std::size_t>(member)]; }

 private:
  std::shared_ptr<ShmHost> host_;
  std::vector<int> members_;
  Group group_;
  // Words of each member. They are never given back: a slower peer may still read what this rank
  // wrote about its last operation.
  std::vector<std::byte*> blocks_;
  std::uint64_t posted_ = 0;    // operations of this rank
  std::uint64_t all_done_ = 0;  // operations that everybody is known to be done with
};

}  // namespace fm::comm
