#include <algorithm>
#include <utility>

#include "comm/levels/levels.h"
#include "comm/shm/group.h"
#include "comm/shm/operation.h"
#include "comm/verbs/peer_communicator.h"

namespace fm::comm {
namespace {

constexpr core::Bytes kSmall = kShmInline;  // up to here one phase to all is faster than two phases

// Collective over `wire`. Returns shared memory alone when all members run on one host, `wire` when
// every member runs on a host of its own, otherwise the two levels.
std::unique_ptr<Communicator> make_levels(std::unique_ptr<PeerCommunicator> wire,
                                          const ShmMeeting& hosts);

class TwoLevelCommunicator : public Communicator {
 public:
  TwoLevelCommunicator(std::unique_ptr<PeerCommunicator> wire, const ShmMeeting& hosts,
                       HostLayout layout)
      : levels_(std::move(wire), hosts, std::move(layout)),
        sent_(levels_.mates().size()),
        received_(levels_.mates().size()) {}

  int rank() const override { return levels_.rank(); }
  int size() const override { return levels_.wire().size(); }
  std::string describe() const override {
    return core::concat("shared memory on each of ", levels_.layout().hosts(), " hosts beside ",
                        levels_.wire().describe());
  }

  Pending all_gather(ConstSpan send, Span receive) override;
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override;
  Pending all_reduce(Span values) override;
  Pending all_to_all(ConstSpan send, Span receive) override;
  Pending broadcast(Span values, int root) override;
  Pending send(ConstSpan values, int peer) override;
  Pending receive(Span values, int peer) override;
  Pending barrier() override;
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return make_levels(levels_.wire().split_peers(members), levels_.hosts());
  }
  core::MemorySource* memory() override { return &levels_.hosts().host->own(); }
  bool may_share(std::span<const int> members) const override {
    const HostLayout& layout = levels_.layout();
    return std::ranges::all_of(
        members, [&](int member) { return layout.host_of(member) == layout.host_of(members[0]); });
  }

 private:
  Pending post(Parts parts) {
    return Pending(std::make_unique<Chain>(levels_.wire().progress(), std::move(parts)));
  }
  Pending post(const ShmParcel& parcel) {
    return Pending(
        std::make_unique<ShmMessage>(levels_.wire().progress(), levels_.inside(), parcel));
  }
  Message collective(Verb verb) { return levels_.wire().collective(verb); }
  std::vector<SharedPiece> pieces_of(const RankSplit& cut, const Span& values) const;

  Levels levels_;
  std::vector<std::uint64_t> sent_;  // number of messages within the host so far, by peer
  std::vector<std::uint64_t> received_;
};

std::vector<SharedPiece> TwoLevelCommunicator::pieces_of(const RankSplit& cut,
                                                         const Span& values) const {
  std::vector<SharedPiece> pieces;
  for (int owner = 0; owner < size(); ++owner) {
    pieces.push_back({.owner = owner, .place = cut.part(owner).of(values.data)});
  }
  return pieces;
}

Pending TwoLevelCommunicator::all_gather(ConstSpan send, Span receive) {
  check_parts(receive.elements, send.elements, size(), "all_gather");
  check_dtypes(send.dtype, receive.dtype, "all_gather");
  const RankSplit cut = {.dtype = send.dtype, .whole = receive.elements, .each = send.elements};
  const auto gather =
      std::make_shared<Gather>(levels_, collective(Verb::kAllGather), pieces_of(cut, receive));
  copy_bytes(send.data, gather->own().data, send.bytes());
  Parts parts;
  Gather::append(gather, parts);
  return post(std::move(parts));
}

Pending TwoLevelCommunicator::reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) {
  check_parts(send.elements, receive.elements, size(), "reduce_scatter");
  check_dtypes(send.dtype, receive.dtype, "reduce_scatter");
  Parts parts;
  append_sum(levels_,
             {.shape = collective(Verb::kReduceScatter),
              .values = send,
              .cut = {.dtype = send.dtype, .whole = send.elements, .each = receive.elements},
              .out = receive,
              .visitor = visitor},
             parts);
  return post(std::move(parts));
}

Pending TwoLevelCommunicator::all_reduce(Span values) {
  const bool small = values.bytes() <= kSmall;
  const RankSplit cut = {
      .dtype = values.dtype,
      .whole = values.elements,
      .each = core::Elements(core::ceil_div(values.elements.count(), size())),
      .whose = small ? RankSplit::Whose::kEverybody : RankSplit::Whose::kOneEach};
  Sum sum = {.shape = collective(Verb::kAllReduce), .values = values, .cut = cut, .out = values};
  Parts parts;
  if (small) {
    append_sum(levels_, sum, parts);
    return post(std::move(parts));
  }
  Message second = sum.shape;
  second.phase = 1;
  const auto gather = std::make_shared<Gather>(levels_, second, pieces_of(cut, values));
  sum.out = gather->own();
  append_sum(levels_, sum, parts);
  Gather::append(gather, parts);
  return post(std::move(parts));
}

Pending TwoLevelCommunicator::barrier() {
  Parts parts;
  append_sum(levels_,
             {.shape = collective(Verb::kBarrier), .cut = {.whose = RankSplit::Whose::kEverybody}},
             parts);
  return post(std::move(parts));
}

Pending TwoLevelCommunicator::all_to_all(ConstSpan send, Span receive) {
  FM_CHECK(send.elements == receive.elements, "all_to_all of ", send.elements.count(), " into ",
           receive.elements.count());
  check_parts(send.elements, send.elements / size(), size(), "all_to_all");
  check_dtypes(send.dtype, receive.dtype, "all_to_all");
  const RankSplit cut = {
      .dtype = send.dtype, .whole = send.elements, .each = send.elements / size()};
  const core::Bytes row = cut.part(0).bytes();
  const auto from = [cut, data = const_cast<void*>(send.data)](int peer) {  // only read
    return cut.part(peer).of(data);
  };
  const core::Bytes all = row * static_cast<std::int64_t>(levels_.mates().size());
  const auto shared = std::make_shared<Lease>(levels_.shared(), all);
  for (const int mate : levels_.mates()) {
    copy_bytes(from(mate).data, shared->at(row * levels_.place_of(mate)), row);
  }

  Parts parts;
  parts.push_back(levels_.between_hosts(
      [this, cut, from, receive, shape = collective(Verb::kAllToAll)](Operation& operation) {
        for (int step = 1; step < size(); ++step) {
          const int source = (rank() + size() - step) % size();
          const int target = (rank() + step) % size();
          if (!levels_.is_near(source)) {
            levels_.receive(operation, source, shape, cut.part(source).of(receive.data));
          }
          if (!levels_.is_near(target)) levels_.send(operation, target, shape, from(target));
        }
      }));
  const auto copy = [this, cut, receive, row](std::span<std::byte* const> rows) {
    const core::Bytes own = row * levels_.place_of(rank());
    for (const int mate : levels_.mates()) {
      const std::byte* const theirs = rows[static_cast<std::size_t>(levels_.place_of(mate))];
      copy_bytes(theirs + own.count(), cut.part(mate).of(receive.data).data, row);
    }
  };
  parts.push_back(levels_.within_host([shared, copy, all]() -> ShmCall {
    return {.verb = Verb::kAllToAll,
            .send = {shared->at(core::Bytes(0)), core::Elements(all.count()), core::DType::kU8},
            .work = copy,
            .longest = all};
  }));
  return post(std::move(parts));
}

// The root first shares the values with its host; each rank of it sends a part to the other hosts.
Pending TwoLevelCommunicator::broadcast(Span values, int root) {
  check_root(root, size());
  const std::vector<int>& senders = levels_.layout().members(levels_.layout().host_of(root));
  const auto count = static_cast<std::int64_t>(senders.size());
  const RankSplit cut = {.dtype = values.dtype,
                         .whole = values.elements,
                         .each = core::Elements(core::ceil_div(values.elements.count(), count))};
  const auto part_of = [this, cut, values](int sender) {
    return cut.part(levels_.place_of(sender)).of(values.data);
  };
  const Message shape = collective(Verb::kBroadcast);
  Parts parts;
  if (!levels_.is_near(root)) {
    std::vector<SharedPiece> pieces;
    for (const int sender : senders) pieces.push_back({sender, part_of(sender)});
    Gather::append(std::make_shared<Gather>(levels_, shape, pieces), parts);
    return post(std::move(parts));
  }
  parts.push_back(levels_.within_host([values, place = levels_.place_of(root)]() -> ShmCall {
    return {.verb = Verb::kBroadcast, .send = values, .receive = values, .root = place};
  }));
  parts.push_back(levels_.between_hosts([this, part_of, shape](Operation& operation) {
    for (int host = 0; host < levels_.layout().hosts(); ++host) {
      if (host == levels_.host()) continue;
      levels_.send(operation, levels_.layout().proxy(host, rank()), shape, part_of(rank()));
    }
  }));
  return post(std::move(parts));
}

Pending TwoLevelCommunicator::send(ConstSpan values, int peer) {
  check_peer(peer, rank(), size());
  if (!levels_.is_near(peer)) return levels_.wire().send(values, peer);
  const int place = levels_.place_of(peer);
  return post({.way = ShmParcel::Way::kSend,
               .peer = place,
               .sequence = sent_[static_cast<std::size_t>(place)]++,
               .send = values});
}

Pending TwoLevelCommunicator::receive(Span values, int peer) {
  check_peer(peer, rank(), size());
  if (!levels_.is_near(peer)) return levels_.wire().receive(values, peer);
  const int place = levels_.place_of(peer);
  return post({.way = ShmParcel::Way::kReceive,
               .peer = place,
               .sequence = received_[static_cast<std::size_t>(place)]++,
               .receive = values});
}

std::unique_ptr<Communicator> make_levels(std::unique_ptr<PeerCommunicator> wire,
                                          const ShmMeeting& hosts) {
  const std::vector<int>& members = wire->group().world_ranks;
  std::vector<int> host_of;
  for (const int rank : members) host_of.push_back(hosts.layout->host_of(rank));
  HostLayout layout(host_of);
  if (layout.hosts() == 1) {
    std::vector<int> host_ranks = host_ranks_of(hosts, members);
    return make_shm_communicator(std::move(wire), hosts.host, std::move(host_ranks));
  }
  if (layout.hosts() == wire->size()) return wire;
  return std::make_unique<TwoLevelCommunicator>(std::move(wire), hosts, std::move(layout));
}

}  // namespace

std::unique_ptr<Communicator> share_memory(std::unique_ptr<PeerCommunicator> wire,
                                           const HostOptions& options) {
  const ShmMeeting hosts = meet_on_hosts(*wire, options.label);
  if (hosts.host == nullptr) {
    wire->set_note("no shared memory: " + hosts.reason);
    return wire;
  }
  wire->progress()->listen(hosts.host->make_bell(options.cpus));
  return make_levels(std::move(wire), hosts);
}

}  // namespace fm::comm
