#include "comm/shm/group.h"

#include <algorithm>
#include <new>
#include <utility>

#include "comm/shm/operation.h"
#include "comm/verbs/peer_communicator.h"
#include "core/check.h"

namespace fm::comm {
namespace {

core::Bytes block_bytes(std::size_t members) {
  return core::Bytes(
      static_cast<std::int64_t>(sizeof(MemberWords) + members * sizeof(ChannelWords)));
}

}  // namespace

ShmGroup::ShmGroup(std::shared_ptr<ShmHost> host, Communicator& wire, std::vector<int> members,
                   Group group)
    : host_(std::move(host)), members_(std::move(members)), group_(std::move(group)) {
  const core::Bytes needed = block_bytes(members_.size());
  void* const own = host_->own().allocate(needed);
  FM_MACHINE_CHECK(own != nullptr, core::ExitCode::kOutOfMemory,
                   "memory that ranks share must fit; free memory or pass --shm false (asked ",
                   needed.count(), " bytes)");
  new (own) MemberWords;
  auto* const channels = static_cast<std::byte*>(own) + sizeof(MemberWords);
  for (std::size_t peer = 0; peer < members_.size(); ++peer) {
    new (channels + peer * sizeof(ChannelWords)) ChannelWords;
  }
  const SharedAddress mine = host_->place_of(own);
  std::vector<SharedAddress> places(members_.size());
  const core::Elements bytes(sizeof(SharedAddress));
  wire.all_gather({&mine, bytes, core::DType::kU8},
                  {places.data(), bytes * size(), core::DType::kU8})
      .finish();
  for (const SharedAddress& place : places) blocks_.push_back(host_->at(place));
}

MemberWords& ShmGroup::words(int member) const {
  return *std::launder(reinterpret_cast<MemberWords*>(blocks_[static_cast<std::size_t>(member)]));
}

ChannelWords& ShmGroup::channel(int owner, int peer) const {
  std::byte* const channels = blocks_[static_cast<std::size_t>(owner)] + sizeof(MemberWords);
  return *std::launder(reinterpret_cast<ChannelWords*>(channels + static_cast<std::size_t>(peer) *
                                                                      sizeof(ChannelWords)));
}

void ShmGroup::ring_all() const {
  for (int member = 0; member < size(); ++member) {
    if (member != rank()) ring(member);
  }
}

int ShmGroup::first_not_posted(std::uint64_t sequence) const {
  for (int member = 0; member < size(); ++member) {
    if (entry(member, sequence).ticket.load(std::memory_order_acquire) != sequence + 1) {
      return member;
    }
  }
  return -1;
}

int ShmGroup::first_not_done(std::uint64_t sequence) const {
  for (int member = 0; member < size(); ++member) {
    if (words(member).done.load(std::memory_order_acquire) <= sequence) return member;
  }
  return -1;
}

bool ShmGroup::may_post(std::uint64_t sequence) {
  if (posted_ != sequence) return false;
  if (sequence < all_done_ + kShmRing) return true;
  if (first_not_done(sequence - kShmRing) >= 0) return false;
  all_done_ = words(0).done.load(std::memory_order_acquire);
  for (int member = 1; member < size(); ++member) {
    all_done_ = std::min(all_done_, words(member).done.load(std::memory_order_acquire));
  }
  return true;
}

namespace {

// Memory of member 0 that all members map. It is released with the region, because it is unknown
// when the last member has read it.
//
// Thread:   the rank's thread; allocate() is collective.
// Lifetime: as long as the group.
class OneMemory : public core::MemorySource {
 public:
  explicit OneMemory(Communicator& members, ShmHost& host) : members_(members), host_(host) {}

  void* allocate(core::Bytes bytes) override {
    SharedAddress place;
    if (members_.rank() == 0) place = host_.place_of(host_.own().allocate(bytes));
    members_.broadcast({&place, core::Elements(sizeof(place)), core::DType::kU8}, 0).finish();
    if (place.region < 0) return nullptr;
    std::byte* const data = host_.at(place);
    return make_present(data, bytes) ? data : nullptr;
  }
  void release(void*, core::Bytes) noexcept override {}
  std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts&) override {
    FM_CHECK(false, "only memory of one rank is joined");
    return nullptr;
  }

 private:
  Communicator& members_;
  ShmHost& host_;
};

class ShmCommunicator : public Communicator {
 public:
  ShmCommunicator(std::unique_ptr<PeerCommunicator> wire, std::shared_ptr<ShmHost> host,
                  std::vector<int> members)
      : progress_(wire->progress()),
        group_(
            std::make_shared<ShmGroup>(std::move(host), *wire, std::move(members), wire->group())),
        wire_(std::move(wire)),
        sent_(static_cast<std::size_t>(size())),
        received_(static_cast<std::size_t>(size())),
        common_(*this, group_->host()) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::string describe() const override { return "shared memory beside " + wire_->describe(); }
  Sums sums() const override { return Sums::kFixedTree; }

  Pending all_gather(ConstSpan send, Span receive) override {
    check_parts(receive.elements, send.elements, size(), "all_gather");
    check_dtypes(send.dtype, receive.dtype, "all_gather");
    return post({.verb = Verb::kAllGather, .send = send, .receive = receive});
  }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    check_parts(send.elements, receive.elements, size(), "reduce_scatter");
    check_dtypes(send.dtype, receive.dtype, "reduce_scatter");
    return post(
        {.verb = Verb::kReduceScatter, .send = send, .receive = receive, .visitor = visitor});
  }
  Pending all_reduce(Span values) override {
    return post({.verb = Verb::kAllReduce, .send = values, .receive = values});
  }
  Pending all_to_all(ConstSpan send, Span receive) override {
    FM_CHECK(send.elements == receive.elements, "all_to_all of ", send.elements.count(), " into ",
             receive.elements.count());
    check_parts(send.elements, send.elements / size(), size(), "all_to_all");
    check_dtypes(send.dtype, receive.dtype, "all_to_all");
    return post({.verb = Verb::kAllToAll, .send = send, .receive = receive});
  }
  Pending broadcast(Span values, int root) override {
    check_root(root, size());
    return post({.verb = Verb::kBroadcast, .send = values, .receive = values, .root = root});
  }
  Pending barrier() override { return post({.verb = Verb::kBarrier}); }

  Pending send(ConstSpan values, int peer) override {
    check_peer(peer, rank(), size());
    return post({.way = ShmParcel::Way::kSend,
                 .peer = peer,
                 .sequence = sent_[static_cast<std::size_t>(peer)]++,
                 .send = values});
  }
  Pending receive(Span values, int peer) override {
    check_peer(peer, rank(), size());
    return post({.way = ShmParcel::Way::kReceive,
                 .peer = peer,
                 .sequence = received_[static_cast<std::size_t>(peer)]++,
                 .receive = values});
  }

  core::Bytes sent() const override { return wire_->sent(); }
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    auto wire = wire_->split_peers(members);
    std::vector<int> host_ranks;
    for (const int member : members) {
      host_ranks.push_back(group_->members()[static_cast<std::size_t>(member)]);
    }
    return std::make_unique<ShmCommunicator>(std::move(wire), group_->shared_host(),
                                             std::move(host_ranks));
  }

  core::MemorySource& memory() override { return group_->host().own(); }
  core::MemorySource* common_memory() override { return &common_; }
  bool may_share(std::span<const int>) const override { return true; }

 private:
  Pending post(const ShmCall& call) {
    return Pending(std::make_unique<ShmCollective>(progress_, group_, collectives_++, call));
  }
  Pending post(const ShmParcel& parcel) {
    return Pending(std::make_unique<ShmMessage>(progress_, group_, parcel));
  }
  std::shared_ptr<Progress> progress_;
  std::shared_ptr<ShmGroup> group_;
  std::unique_ptr<PeerCommunicator> wire_;
  std::uint64_t collectives_ = 0;
  std::vector<std::uint64_t> sent_;  // number of messages so far, per peer
  std::vector<std::uint64_t> received_;
  OneMemory common_;
};

}  // namespace

std::unique_ptr<Communicator> make_shm_communicator(std::unique_ptr<PeerCommunicator> wire,
                                                    std::shared_ptr<ShmHost> host,
                                                    std::vector<int> host_ranks) {
  return std::make_unique<ShmCommunicator>(std::move(wire), std::move(host), std::move(host_ranks));
}

}  // namespace fm::comm
