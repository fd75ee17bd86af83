// The eight verbs over point-to-point messages: one implementation for threads, MPI and tcp.
//
// Bytes that every rank sends and receives, for p ranks and N bytes of payload; one phase unless
// noted:
//   all_gather      (p-1) x N        every rank to every other
//   reduce_scatter  (p-1) x N        every rank to every other into staging, then the tree in order
//   all_reduce      2 (p-1)/p x N    reduce_scatter + all_gather, two phases
//                   (p-1) x N        small values: sent to all and added by all, one phase
//   all_to_all      (p-1) x N        every rank to every other
//   broadcast       N per child      binomial tree, ceil(log2 p) levels
//   barrier, split  0                an empty message, every rank to every other
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/verbs/progress.h"
#include "core/check.h"
#include "core/types.h"

namespace fm::comm {

struct Group {
  std::uint64_t id = 0;
  std::vector<int> world_ranks = {};  // of the members, in rank order
  int rank = 0;                       // this rank's index in world_ranks
};

// The id of a group, computed from values that all its members know: the parent, the members, and
// how often the same split was made before.
std::uint64_t group_id(std::uint64_t parent, std::span<const int> world_ranks, int repetition);

class PeerCommunicator : public Communicator {
 public:
  // `group.id` must already be open in the fabric.
  PeerCommunicator(std::shared_ptr<Progress> progress, Group group);

  int rank() const override { return group_.rank; }
  int size() const override { return static_cast<int>(group_.world_ranks.size()); }
  std::string describe() const override;
  Sums sums() const override { return Sums::kFixedTree; }

  Pending all_gather(ConstSpan send, Span receive) override;
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override;
  Pending all_reduce(Span values) override;
  Pending all_to_all(ConstSpan send, Span receive) override;
  Pending broadcast(Span values, int root) override;
  Pending send(ConstSpan values, int peer) override;
  Pending receive(Span values, int peer) override;
  Pending barrier() override;
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return split_peers(members);
  }
  // Every rank counts as a host. comm/levels has it.
  std::unique_ptr<Communicator> split_narrow(std::span<const int> members, Travel travel) override;
  core::Bytes sent() const override { return progress_->sent(); }
  std::unique_ptr<PeerCommunicator> split_peers(std::span<const int> members);

  // The address of the group's next collective, for callers that build a collective of their own
  // messages. All members must call it.
  Message collective(Verb verb);
  // The same address to or from a member, with the type and bytes of `values`.
  Message message_to(int peer, Message shape, ConstSpan values) const;

  const std::shared_ptr<Progress>& progress() const { return progress_; }
  const Group& group() const { return group_; }
  // Appended to describe().
  void set_note(std::string note) { note_ = std::move(note); }

 private:
  Pending all_reduce_small(Span values);
  Pending all_reduce_large(Span values);
  std::unique_ptr<Operation> begin() { return std::make_unique<Operation>(progress_); }
  // Posts, for each other rank, a receive of into(peer) and a send of from(peer).
  template <class From, class Into>
  void exchange(Operation& operation, const Message& shape, const From& from, const Into& into);
  void meet(const Group& child);

  std::shared_ptr<Progress> progress_;
  Group group_;
  std::string note_;
  std::shared_ptr<StagingPool> staging_ = std::make_shared<StagingPool>();
  std::uint64_t collectives_ = 0;
  std::vector<std::uint64_t> sent_;  // number of messages so far, per peer
  std::vector<std::uint64_t> received_;
  std::map<std::vector<int>, int> splits_;  // how often each list of members was split off
};

// The argument checks of all backends; a BugError names the values.
inline void check_parts(core::Elements whole, core::Elements part, int size,
                        std::string_view verb) {
  FM_CHECK(whole == part * size, verb, " needs ", size, " equal parts, whole ", whole.count(),
           ", part ", part.count());
}

inline void check_dtypes(core::DType a, core::DType b, std::string_view verb) {
  FM_CHECK(a == b, verb, " from ", core::name_of(a), " to ", core::name_of(b));
}

inline void check_root(int root, int size) {
  FM_CHECK(root >= 0 && root < size, "root ", root, " in a group of ", size);
}

inline void check_peer(int peer, int rank, int size) {
  FM_CHECK(peer >= 0 && peer < size && peer != rank, "peer ", peer, " of rank ", rank,
           " in a group of ", size);
}

}  // namespace fm::comm
