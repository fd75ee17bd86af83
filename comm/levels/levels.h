// A group whose members run on several hosts: the operations within a host and between hosts that
// chains consist of, and the communicator above them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/levels/node_sums.h"
#include "comm/shm/host.h"
#include "comm/shm/operation.h"
#include "comm/verbs/peer_communicator.h"
#include "comm/verbs/progress.h"

namespace fm::comm {

// A block of a pool, for one operation.
class Lease {
 public:
  Lease(std::shared_ptr<StagingPool> pool, core::Bytes bytes)
      : pool_(std::move(pool)), data_(pool_->take(bytes)) {}
  ~Lease() { pool_->give_back(data_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  std::byte* at(core::Bytes offset) const { return data_ + offset.count(); }

 private:
  std::shared_ptr<StagingPool> pool_;
  std::byte* data_;
};

// Invariant: hosts() has the memory of this rank, inside() are the members that run on this host;
//            where no two ranks of the world share memory both are empty.
// Thread:    the rank's thread.
// Lifetime:  outlives the chains that use its parts.
class Levels {
 public:
  // Collective over `wire`.
  Levels(std::unique_ptr<PeerCommunicator> wire, ShmMeeting hosts, HostLayout layout,
         Travel travel);

  PeerCommunicator& wire() const { return *wire_; }
  const ShmMeeting& hosts() const { return hosts_; }
  const HostLayout& layout() const { return layout_; }
  const std::shared_ptr<ShmGroup>& inside() const { return inside_; }
  Travel travel() const { return travel_; }
  int rank() const { return wire_->rank(); }
  int host() const { return layout_.host_of(rank()); }
  int place_of(int peer) const { return layout_.place_of(peer); }
  bool is_near(int peer) const { return layout_.host_of(peer) == host(); }
  const std::vector<int>& mates() const { return layout_.members(host()); }  // this rank too
  const std::vector<int>& clients() const { return clients_; }  // see HostLayout::clients

  const std::shared_ptr<StagingPool>& staging() const { return staging_; }
  // Memory that the ranks of this host can read.
  const std::shared_ptr<StagingPool>& shared() const { return shared_; }

  // A part of a chain: one collective of the ranks of this host. Called when the verb is posted.
  Chain::Part within_host(std::function<ShmCall()> call);
  // A part of a chain: the messages that `post` posts.
  Chain::Part between_hosts(std::function<void(Operation&)> post) const;
  void send(Operation& operation, int peer, const Message& shape, ConstSpan values) const;
  void receive(Operation& operation, int peer, const Message& shape, Span values) const;

 private:
  std::unique_ptr<PeerCommunicator> wire_;
  ShmMeeting hosts_;
  HostLayout layout_;
  Travel travel_;
  std::vector<int> clients_;
  std::shared_ptr<ShmGroup> inside_;
  std::uint64_t within_ = 0;  // number of collectives within the host so far
  std::shared_ptr<StagingPool> staging_ = std::make_shared<StagingPool>();
  std::shared_ptr<StagingPool> shared_;
};

// The host ranks of world ranks: their positions among the ranks of their host.
std::vector<int> host_ranks_of(const ShmMeeting& hosts, std::span<const int> world_ranks);

struct HostOptions {
  std::string label = {};  // ranks with different labels count as ranks of different hosts
  int cpus = 0;            // CPUs that the ranks of this host may use; 0: all that are online
};

// Collective: finds out which ranks share a host. Returns `wire` itself where no two ranks do, or
// where they cannot share memory; describe() then has the reason.
std::unique_ptr<Communicator> share_memory(std::unique_ptr<PeerCommunicator> wire,
                                           const HostOptions& options);

// The two moves from which the verbs between hosts are composed: a sum of the values of all ranks,
// and a gather of pieces to all ranks.
using Parts = std::vector<Chain::Part>;

// Every rank gets the sum of its part of the values. Each host adds its nodes, and sends them to
// the ranks that need them.
struct Sum {
  Message shape;
  ConstSpan values = {};
  RankSplit cut;
  Span out = {};  // this rank's part
  SumVisitor* visitor = nullptr;
};
void append_sum(Levels& levels, const Sum& sum, Parts& parts);

// A piece goes from its owner to one rank of every other host, which shares it there.
struct SharedPiece {
  int owner = 0;
  Span place;  // its destination on this rank
};

// Pieces that travel in another form arrive in it everywhere, with their owner and its host too,
// so all ranks read the same bits.
//
// Invariant: every rank of the group lists the same owners in the same order.
// Lifetime:  as long as the chain it was appended to.
class Gather {
 public:
  Gather(Levels& levels, Travel travel, const Message& shape,
         const std::vector<SharedPiece>& pieces);

  // The memory in which this rank's own piece must be when the first part of the gather begins.
  Span own() const;
  static void append(const std::shared_ptr<Gather>& gather, Parts& parts);

 private:
  struct Held {
    SharedPiece piece;
    int holder = 0;      // the rank of this host that receives it
    core::Bytes offset;  // in the shared memory of the holder
  };
  Span here(const Held& held) const;
  core::Bytes bytes_of(const Held& held) const;
  const Held& own_held() const;
  void pack_own() const;
  void exchange(Operation& operation) const;
  void copy(std::span<std::byte* const> rows) const;

  Levels& levels_;
  Travel travel_;
  Message shape_;
  std::vector<Held> held_;
  core::Bytes own_;      // bytes that this rank shares
  core::Bytes longest_;  // the most bytes that any rank of this host shares
  std::optional<Lease> shared_;
  std::optional<Lease> unpacked_;  // the own piece, where it travels in another form
};

}  // namespace fm::comm
