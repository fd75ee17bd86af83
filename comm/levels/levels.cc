#include "comm/levels/levels.h"

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
  // Counted here, because chains that overlap get to their parts in any order.
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

}  // namespace fm::comm
