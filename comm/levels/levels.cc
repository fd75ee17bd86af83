#include "comm/levels/levels.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/shm/group.h"
#include "comm/shm/operation.h"
#include "comm/verbs/peer_communicator.h"

namespace fm::comm {
namespace {

// Where the next numbers may begin.
core::Bytes on_words(core::Bytes bytes) {
  constexpr std::int64_t kLine = 64;
  return core::Bytes(core::ceil_div(bytes.count(), kLine) * kLine);
}

// A sum under way.
class SumMove {
 public:
  SumMove(Levels& levels, const Sum& sum);

  ShmCall call(const std::shared_ptr<SumMove>& self) const {
    return {.verb = sum_.shape.verb,
            .send = sum_.values,
            .work = [self](std::span<std::byte* const> rows) { self->add_nodes(rows); },
            .longest = sum_.values.bytes()};
  }
  void exchange(Operation& operation) const;
  void finish() const;

 private:
  // A rank of another host, and the nodes of this host for its part.
  struct Client {
    int rank = 0;
    std::byte* nodes = nullptr;
    std::byte* packed = nullptr;
  };
  std::int64_t nodes_on(int host) const {
    return static_cast<std::int64_t>(levels_.layout().nodes_of(host).size());
  }
  bool everybody() const { return sum_.cut.whose == RankSplit::Whose::kEverybody; }
  void add_nodes(std::span<std::byte* const> rows) const;
  // The nodes of a host for one part, one behind the other.
  Span nodes_span(std::byte* first, core::Elements part, int host) const {
    return {first, part * nodes_on(host), sum_.cut.dtype};
  }
  core::Bytes packed_bytes(core::Elements part, int host) const {
    return on_words(travel_bytes(travel_, part * nodes_on(host), sum_.cut.dtype));
  }
  void place_packed();

  Levels& levels_;
  Sum sum_;
  Travel travel_;
  ValueRange own_;
  std::optional<Lease> staging_;
  std::optional<Lease> packed_;      // what travels in another form
  std::vector<std::byte*> nodes_;    // the values of all nodes for this rank's part
  std::vector<std::byte*> of_host_;  // the first node of each host
  std::vector<std::byte*> packed_of_host_;
  std::vector<Client> clients_;
};

// Sums that all ranks add for themselves are few, and every host must add the same numbers.
SumMove::SumMove(Levels& levels, const Sum& sum)
    : levels_(levels),
      sum_(sum),
      travel_(everybody() ? Travel::kWhole : travel_of(levels.travel(), sum.cut.dtype)),
      own_(sum.cut.part(levels.rank())) {
  const HostLayout& layout = levels.layout();
  core::Bytes needed = own_.bytes() * static_cast<std::int64_t>(layout.nodes().size());
  for (const int client : levels.clients()) {
    if (!everybody()) needed += sum.cut.part(client).bytes() * nodes_on(levels.host());
  }
  staging_.emplace(levels.staging(), needed);

  core::Bytes used;
  nodes_.resize(layout.nodes().size());
  for (int host = 0; host < layout.hosts(); ++host) {
    of_host_.push_back(staging_->at(used));
    for (const int node : layout.nodes_of(host)) {
      nodes_[static_cast<std::size_t>(node)] = staging_->at(used);
      used += own_.bytes();
    }
  }
  for (const int client : levels.clients()) {
    if (everybody()) {
      clients_.push_back({client, of_host_[static_cast<std::size_t>(levels.host())]});
      continue;
    }
    clients_.push_back({client, staging_->at(used)});
    used += sum.cut.part(client).bytes() * nodes_on(levels.host());
  }
  if (travel_ != Travel::kWhole) place_packed();
}

void SumMove::place_packed() {
  const auto part_of = [this](const Client& client) { return sum_.cut.part(client.rank).elements; };
  core::Bytes needed;
  std::vector<core::Bytes> of_hosts, of_clients;
  for (int host = 0; host < levels_.layout().hosts(); ++host) {
    of_hosts.push_back(needed);
    needed += packed_bytes(own_.elements, host);
  }
  for (const Client& client : clients_) {
    of_clients.push_back(needed);
    needed += packed_bytes(part_of(client), levels_.host());
  }
  packed_.emplace(levels_.staging(), needed);
  for (const core::Bytes at : of_hosts) packed_of_host_.push_back(packed_->at(at));
  for (std::size_t i = 0; i < clients_.size(); ++i) clients_[i].packed = packed_->at(of_clients[i]);
}

void SumMove::add_nodes(std::span<std::byte* const> rows) const {
  const int host = levels_.host();
  std::byte* const own = of_host_[static_cast<std::size_t>(host)];
  sum_nodes_of_host(levels_.layout(), host, rows, own_, own);
  for (const Client& client : clients_) {
    if (everybody()) return;
    sum_nodes_of_host(levels_.layout(), host, rows, sum_.cut.part(client.rank), client.nodes);
  }
}

void SumMove::exchange(Operation& operation) const {
  const auto under_way = [this](const Span& values, std::byte* packed) -> Span {
    if (travel_ == Travel::kWhole) return values;
    const core::Bytes bytes = travel_bytes(travel_, values.elements, values.dtype);
    return {packed, core::Elements(bytes.count()), core::DType::kU8};
  };
  for (int host = 0; host < levels_.layout().hosts(); ++host) {
    if (host == levels_.host()) continue;
    const auto index = static_cast<std::size_t>(host);
    std::byte* const packed = travel_ == Travel::kWhole ? nullptr : packed_of_host_[index];
    levels_.receive(operation, levels_.layout().proxy(host, levels_.rank()), sum_.shape,
                    under_way(nodes_span(of_host_[index], own_.elements, host), packed));
  }
  for (const Client& client : clients_) {
    const core::Elements part = sum_.cut.part(client.rank).elements;
    const Span nodes = nodes_span(client.nodes, part, levels_.host());
    if (travel_ != Travel::kWhole) pack(travel_, nodes, client.packed);
    levels_.send(operation, client.rank, sum_.shape, under_way(nodes, client.packed));
  }
}

void SumMove::finish() const {
  for (int host = 0; host < levels_.layout().hosts() && travel_ != Travel::kWhole; ++host) {
    if (host == levels_.host()) continue;
    const auto index = static_cast<std::size_t>(host);
    unpack(travel_, packed_of_host_[index], nodes_span(of_host_[index], own_.elements, host));
  }
  sum_above_nodes(levels_.layout(), nodes_, sum_.out, sum_.visitor);
}

constexpr core::Bytes kSmall = kShmInline;  // up to here one phase to all is faster than two phases

// Collective over `wire`. Returns shared memory alone when all members run on one host, `wire` when
// every member runs on a host of its own, otherwise the two levels.
std::unique_ptr<Communicator> make_levels(std::unique_ptr<PeerCommunicator> wire,
                                          const ShmMeeting& hosts, Travel travel);

// The eight verbs between ranks of several hosts: shared memory within a host, messages between
// hosts, and the bits of every other backend.
//
// A host adds those nodes of the summation tree (core/tree.h) whose ranks all run on it, and sends
// the nodes; a rank that needs a sum adds them along the rest of the tree. 2^k neighbouring ranks
// of a host, from a multiple of 2^k on, are one node; other layouts have more nodes, and where
// ranks are distributed over hosts in turn every rank is a node, which costs as much as messages
// alone. Every rank sends and receives its own part, so all network cards of a host work.
//
// Bytes that a rank sends to other hosts, and receives, for h hosts, n nodes per host and N bytes
// of payload:
//   all_gather      (h-1) x N
//   reduce_scatter  (h-1) x n x N
//   all_reduce      (h-1) x (n+1) / p x N; small values (h-1) x n x N, in one phase
//   all_to_all      N per rank of another host
//   broadcast       (h-1) / (ranks of the root's host) x N, sent by its ranks only
//   send, receive   N, when the peer is on another host
// The first two, and all_reduce of more than kSmall, may travel in fewer (comm/travel.h).
class TwoLevelCommunicator : public Communicator {
 public:
  TwoLevelCommunicator(std::unique_ptr<PeerCommunicator> wire, const ShmMeeting& hosts,
                       HostLayout layout, Travel travel)
      : levels_(std::move(wire), hosts, std::move(layout), travel),
        sent_(levels_.mates().size()),
        received_(levels_.mates().size()) {}

  int rank() const override { return levels_.rank(); }
  int size() const override { return levels_.wire().size(); }
  std::string describe() const override {
    return core::concat("shared memory on each of ", levels_.layout().hosts(), " hosts beside ",
                        levels_.wire().describe());
  }
  Sums sums() const override {  // which nodes are rounded under way follows from the layout
    return levels_.travel() == Travel::kWhole ? Sums::kFixedTree : Sums::kRepeats;
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
    return split_narrow(members, Travel::kWhole);
  }
  std::unique_ptr<Communicator> split_narrow(std::span<const int> members, Travel travel) override {
    if (!shares_memory()) return levels_.wire().split_narrow(members, travel);
    return make_levels(levels_.wire().split_peers(members), levels_.hosts(), travel);
  }
  core::Bytes sent() const override { return levels_.wire().sent(); }
  core::MemorySource& memory() override {
    return shares_memory() ? levels_.hosts().host->own() : core::heap();
  }
  bool may_share(std::span<const int> members) const override {
    const HostLayout& layout = levels_.layout();
    return std::ranges::all_of(
        members, [&](int member) { return layout.host_of(member) == layout.host_of(members[0]); });
  }

 private:
  bool shares_memory() const { return levels_.hosts().host != nullptr; }
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
  const auto gather = std::make_shared<Gather>(
      levels_, levels_.travel(), collective(Verb::kAllGather), pieces_of(cut, receive));
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
  const auto gather =
      std::make_shared<Gather>(levels_, levels_.travel(), second, pieces_of(cut, values));
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
    Gather::append(std::make_shared<Gather>(levels_, Travel::kWhole, shape, pieces), parts);
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
                                          const ShmMeeting& hosts, Travel travel) {
  const std::vector<int>& members = wire->group().world_ranks;
  std::vector<int> host_of;
  for (const int rank : members) host_of.push_back(hosts.layout->host_of(rank));
  HostLayout layout(host_of);
  if (layout.hosts() == 1) {
    std::vector<int> host_ranks = host_ranks_of(hosts, members);
    return make_shm_communicator(std::move(wire), hosts.host, std::move(host_ranks));
  }
  if (layout.hosts() == wire->size() && travel == Travel::kWhole) return wire;
  return std::make_unique<TwoLevelCommunicator>(std::move(wire), hosts, std::move(layout), travel);
}

}  // namespace

std::unique_ptr<Communicator> PeerCommunicator::split_narrow(std::span<const int> members,
                                                             Travel travel) {
  if (travel == Travel::kWhole || members.size() == 1) return split_peers(members);
  std::vector<int> host_of(members.size());
  std::iota(host_of.begin(), host_of.end(), 0);
  return std::make_unique<TwoLevelCommunicator>(split_peers(members), ShmMeeting{},
                                                HostLayout(host_of), travel);
}

std::vector<int> host_ranks_of(const ShmMeeting& hosts, std::span<const int> world_ranks) {
  std::vector<int> ranks;
  for (const int rank : world_ranks) ranks.push_back(hosts.layout->place_of(rank));
  return ranks;
}

Levels::Levels(std::unique_ptr<PeerCommunicator> wire, ShmMeeting hosts, HostLayout layout,
               Travel travel)
    : wire_(std::move(wire)),
      hosts_(std::move(hosts)),
      layout_(std::move(layout)),
      travel_(travel),
      clients_(layout_.clients(rank())),
      shared_(
          std::make_shared<StagingPool>(hosts_.host == nullptr ? nullptr : &hosts_.host->own())) {
  if (hosts_.host == nullptr) return;
  const auto local = wire_->split_peers(mates());
  inside_ = std::make_shared<ShmGroup>(
      hosts_.host, *local, host_ranks_of(hosts_, local->group().world_ranks), local->group());
}

Chain::Part Levels::within_host(std::function<ShmCall()> call) {
  if (inside_ == nullptr) {  // this rank is its host
    return [call = std::move(call)]() -> std::unique_ptr<Posted> {
      const ShmCall here = call();
      auto* const row = static_cast<std::byte*>(const_cast<void*>(here.send.data));  // only read
      if (here.work != nullptr) here.work(std::span(&row, 1));
      return nullptr;
    };
  }
  // Counted when posted, because overlapping chains reach their parts in any order.
  return [this, sequence = within_++, call = std::move(call)] {
    return std::make_unique<ShmCollective>(wire_->progress(), inside_, sequence, call());
  };
}

Chain::Part Levels::between_hosts(std::function<void(Operation&)> post) const {
  return [this, post = std::move(post)] {
    auto operation = std::make_unique<Operation>(wire_->progress());
    post(*operation);
    return operation;
  };
}

void Levels::send(Operation& operation, int peer, const Message& shape, ConstSpan values) const {
  operation.send(values.data, wire_->message_to(peer, shape, values));
}

void Levels::receive(Operation& operation, int peer, const Message& shape, Span values) const {
  operation.receive(values.data, wire_->message_to(peer, shape, values));
}

void append_sum(Levels& levels, const Sum& sum, Parts& parts) {
  const auto move = std::make_shared<SumMove>(levels, sum);
  parts.push_back(levels.within_host([move] { return move->call(move); }));
  parts.push_back(
      levels.between_hosts([move](Operation& operation) { move->exchange(operation); }));
  parts.push_back([move]() -> std::unique_ptr<Posted> {
    move->finish();
    return nullptr;
  });
}

Gather::Gather(Levels& levels, Travel travel, const Message& shape,
               const std::vector<SharedPiece>& pieces)
    : levels_(levels), travel_(travel), shape_(shape) {
  FM_CHECK(!pieces.empty(), "a gather of nothing");
  travel_ = travel_of(travel, pieces.front().place.dtype);
  std::vector<core::Bytes> used(levels.mates().size());
  for (const SharedPiece& piece : pieces) {
    const int holder = levels.is_near(piece.owner)
                           ? piece.owner
                           : levels.layout().proxy(levels.host(), piece.owner);
    core::Bytes& of_holder = used[static_cast<std::size_t>(levels.place_of(holder))];
    held_.push_back({piece, holder, of_holder});
    const core::Bytes bytes = bytes_of(held_.back());
    of_holder += travel_ == Travel::kWhole ? bytes : on_words(bytes);
  }
  own_ = used[static_cast<std::size_t>(levels.place_of(levels.rank()))];
  longest_ = *std::ranges::max_element(used);
  shared_.emplace(levels.shared(), own_);
  const bool owns = std::ranges::any_of(
      pieces, [&](const SharedPiece& piece) { return piece.owner == levels.rank(); });
  if (travel_ != Travel::kWhole && owns)
    unpacked_.emplace(levels.staging(), own_held().piece.place.bytes());
}

core::Bytes Gather::bytes_of(const Held& held) const {
  return travel_bytes(travel_, held.piece.place.elements, held.piece.place.dtype);
}

// As it lies in shared memory, and travels.
Span Gather::here(const Held& held) const {
  const Span& place = held.piece.place;
  if (travel_ == Travel::kWhole) return {shared_->at(held.offset), place.elements, place.dtype};
  return {shared_->at(held.offset), core::Elements(bytes_of(held).count()), core::DType::kU8};
}

const Gather::Held& Gather::own_held() const {
  const auto is_own = [this](const Held& held) { return held.piece.owner == levels_.rank(); };
  return *std::ranges::find_if(held_, is_own);
}

Span Gather::own() const {
  const Held& held = own_held();
  if (!unpacked_) return here(held);
  return {unpacked_->at(core::Bytes(0)), held.piece.place.elements, held.piece.place.dtype};
}

void Gather::pack_own() const {
  if (unpacked_) pack(travel_, own(), shared_->at(own_held().offset));
}

void Gather::exchange(Operation& operation) const {
  pack_own();
  for (const Held& held : held_) {
    if (held.holder != levels_.rank()) continue;
    if (held.piece.owner != levels_.rank()) {
      levels_.receive(operation, held.piece.owner, shape_, here(held));
      continue;
    }
    for (int host = 0; host < levels_.layout().hosts(); ++host) {
      if (host == levels_.host()) continue;
      levels_.send(operation, levels_.layout().proxy(host, levels_.rank()), shape_, here(held));
    }
  }
}

void Gather::copy(std::span<std::byte* const> rows) const {
  for (const Held& held : held_) {
    const std::byte* const row = rows[static_cast<std::size_t>(levels_.place_of(held.holder))];
    unpack(travel_, row + held.offset.count(), held.piece.place);
  }
}

void Gather::append(const std::shared_ptr<Gather>& gather, Parts& parts) {
  Levels& levels = gather->levels_;
  parts.push_back(
      levels.between_hosts([gather](Operation& operation) { gather->exchange(operation); }));
  parts.push_back(levels.within_host([gather]() -> ShmCall {
    const core::Elements bytes(gather->own_.count());
    return {.verb = gather->shape_.verb,
            .send = {gather->shared_->at(core::Bytes(0)), bytes, core::DType::kU8},
            .work = [gather](std::span<std::byte* const> rows) { gather->copy(rows); },
            .longest = gather->longest_};
  }));
}

std::unique_ptr<Communicator> share_memory(std::unique_ptr<PeerCommunicator> wire,
                                           const HostOptions& options) {
  const ShmMeeting hosts = meet_on_hosts(*wire, options.label);
  if (hosts.host == nullptr) {
    wire->set_note("no shared memory: " + hosts.reason);
    return wire;
  }
  wire->progress()->listen(hosts.host->make_bell(options.cpus));
  return make_levels(std::move(wire), hosts, Travel::kWhole);
}

}  // namespace fm::comm
