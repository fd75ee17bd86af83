#include "comm/levels/levels.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fm::comm {

std::vector<int> host_ranks_of(const ShmMeeting& hosts, std::span<const int> world_ranks) {
  std::vector<int> ranks;
  for (const int rank : world_ranks) ranks.push_back(hosts.layout->place_of(rank));
  return ranks;
}

Levels::Levels(std::unique_ptr<PeerCommunicator> wire, ShmMeeting hosts, HostLayout layout)
    : wire_(std::move(wire)),
      hosts_(std::move(hosts)),
      layout_(std::move(layout)),
      clients_(layout_.clients(rank())),
      shared_(std::make_shared<StagingPool>(&hosts_.host->own())) {
  const auto local = wire_->split_peers(mates());
  inside_ = std::make_shared<ShmGroup>(
      hosts_.host, *local, host_ranks_of(hosts_, local->group().world_ranks), local->group());
}

Chain::Part Levels::within_host(std::function<ShmCall()> call) {
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

namespace {

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
  void finish() const { sum_above_nodes(levels_.layout(), nodes_, sum_.out, sum_.visitor); }

 private:
  // A rank of another host, and the nodes of this host for its part.
  struct Client {
    int rank = 0;
    std::byte* nodes = nullptr;
  };
  std::int64_t nodes_on(int host) const {
    return static_cast<std::int64_t>(levels_.layout().nodes_of(host).size());
  }
  bool everybody() const { return sum_.cut.whose == RankSplit::Whose::kEverybody; }
  void add_nodes(std::span<std::byte* const> rows) const;

  Levels& levels_;
  Sum sum_;
  ValueRange own_;
  std::optional<Lease> staging_;
  std::vector<std::byte*> nodes_;    // the values of all nodes for this rank's part
  std::vector<std::byte*> of_host_;  // the first node of each host
  std::vector<Client> clients_;
};

SumMove::SumMove(Levels& levels, const Sum& sum)
    : levels_(levels), sum_(sum), own_(sum.cut.part(levels.rank())) {
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
  const core::DType dtype = sum_.cut.dtype;
  for (int host = 0; host < levels_.layout().hosts(); ++host) {
    if (host == levels_.host()) continue;
    levels_.receive(
        operation, levels_.layout().proxy(host, levels_.rank()), sum_.shape,
        {of_host_[static_cast<std::size_t>(host)], own_.elements * nodes_on(host), dtype});
  }
  for (const Client& client : clients_) {
    const core::Elements elements = sum_.cut.part(client.rank).elements * nodes_on(levels_.host());
    levels_.send(operation, client.rank, sum_.shape, {client.nodes, elements, dtype});
  }
}

}  // namespace

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

Gather::Gather(Levels& levels, const Message& shape, const std::vector<SharedPiece>& pieces)
    : levels_(levels), shape_(shape) {
  std::vector<core::Bytes> used(levels.mates().size());
  for (const SharedPiece& piece : pieces) {
    const int holder = levels.is_near(piece.owner)
                           ? piece.owner
                           : levels.layout().proxy(levels.host(), piece.owner);
    core::Bytes& of_holder = used[static_cast<std::size_t>(levels.place_of(holder))];
    held_.push_back({piece, holder, of_holder});
    of_holder += piece.place.bytes();
  }
  own_ = used[static_cast<std::size_t>(levels.place_of(levels.rank()))];
  longest_ = *std::ranges::max_element(used);
  shared_.emplace(levels.shared(), own_);
}

Span Gather::here(const Held& held) const {
  return {shared_->at(held.offset), held.piece.place.elements, held.piece.place.dtype};
}

Span Gather::own() const {
  const auto is_own = [this](const Held& held) { return held.piece.owner == levels_.rank(); };
  return here(*std::ranges::find_if(held_, is_own));
}

void Gather::exchange(Operation& operation) const {
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
    const auto bytes = static_cast<std::size_t>(held.piece.place.bytes().count());
    if (bytes > 0) std::memcpy(held.piece.place.data, row + held.offset.count(), bytes);
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

}  // namespace fm::comm
