#include "comm/verbs/peer_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/verbs/tree_rows.h"

namespace fm::comm {
namespace {

constexpr core::Bytes kSmall(4096);  // up to here one phase to all ranks is faster than two phases

std::byte* at(void* data, core::Bytes offset) {
  return static_cast<std::byte*>(data) + offset.count();
}
const std::byte* at(const void* data, core::Bytes offset) {
  return static_cast<const std::byte*>(data) + offset.count();
}

void copy_unless_in_place(const void* from, void* to, core::Bytes bytes) {
  if (from == to || bytes == core::Bytes(0)) return;
  std::memcpy(to, from, static_cast<std::size_t>(bytes.count()));
}

// The rows of a sum in rank order: the own row in place, the others in staging.
std::vector<const void*> rows_of(const void* own, int rank, int size, std::byte* staging,
                                 core::Bytes row) {
  std::vector<const void*> rows;
  for (int r = 0; r < size; ++r) {
    rows.push_back(r == rank ? own : at(staging, row * (r < rank ? r : r - 1)));
  }
  return rows;
}

// Part `part` of `values`, which are split into equal parts (rounded up): the last ones may be
// shorter or empty.
Span part_of(const Span& values, int part, int parts) {
  const std::int64_t per_part = core::ceil_div(values.elements.count(), parts);
  const std::int64_t first = std::min(per_part * part, values.elements.count());
  const std::int64_t last = std::min(first + per_part, values.elements.count());
  return {at(values.data, core::bytes_of(core::Elements(first), values.dtype)),
          core::Elements(last - first), values.dtype};
}

}  // namespace

std::uint64_t group_id(std::uint64_t parent, std::span<const int> world_ranks, int repetition) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a over 64-bit words
  const auto mix = [&hash](std::uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ ((word >> (8 * byte)) & 0xffU)) * 0x100000001b3U;
    }
  };
  mix(parent);
  mix(static_cast<std::uint64_t>(repetition));
  for (const int world_rank : world_ranks) mix(static_cast<std::uint64_t>(world_rank));
  return hash;
}

PeerCommunicator::PeerCommunicator(std::shared_ptr<Progress> progress, Group group)
    : progress_(std::move(progress)),
      group_(std::move(group)),
      sent_(group_.world_ranks.size()),
      received_(group_.world_ranks.size()) {}

std::string PeerCommunicator::describe() const {
  return core::concat(progress_->fabric().name(), ", ", size(), size() == 1 ? " rank" : " ranks",
                      note_.empty() ? "" : ", ", note_);
}

Message PeerCommunicator::collective(Verb verb) {
  return {.group = group_.id, .sequence = collectives_++, .verb = verb};
}

Message PeerCommunicator::message_to(int peer, Message shape, ConstSpan values) const {
  shape.dtype = values.dtype;
  shape.bytes = values.bytes();
  shape.peer = group_.world_ranks[static_cast<std::size_t>(peer)];
  return shape;
}

template <class From, class Into>
void PeerCommunicator::exchange(Operation& operation, const Message& shape, const From& from,
                                const Into& into) {
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + size() - step) % size();
    const Span place = into(peer);
    operation.receive(place.data, message_to(peer, shape, place));
  }
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    const ConstSpan part = from(peer);
    operation.send(part.data, message_to(peer, shape, part));
  }
}

Pending PeerCommunicator::all_gather(ConstSpan send, Span receive) {
  check_parts(receive.elements, send.elements, size(), "all_gather");
  check_dtypes(send.dtype, receive.dtype, "all_gather");
  auto operation = begin();
  const auto into = [&](int peer) {
    return Span{at(receive.data, send.bytes() * peer), send.elements, send.dtype};
  };
  exchange(
      *operation, collective(Verb::kAllGather), [&](int) { return send; }, into);
  copy_unless_in_place(send.data, into(rank()).data, send.bytes());
  return Pending(std::move(operation));
}

Pending PeerCommunicator::reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) {
  check_parts(send.elements, receive.elements, size(), "reduce_scatter");
  check_dtypes(send.dtype, receive.dtype, "reduce_scatter");
  auto operation = begin();
  const core::Bytes row = receive.bytes();
  const auto from = [&](int peer) {
    return ConstSpan(at(send.data, row * peer), receive.elements, receive.dtype);
  };
  std::byte* const staging = operation->staging(staging_, row * (size() - 1));
  const auto rows = rows_of(from(rank()).data, rank(), size(), staging, row);
  exchange(*operation, collective(Verb::kReduceScatter), from, [&](int peer) {
    return Span{at(staging, row * (peer < rank() ? peer : peer - 1)), receive.elements,
                receive.dtype};
  });
  operation->then([rows, receive, visitor](Operation&) {
    tree_sum_rows(rows, receive);
    if (visitor != nullptr) visitor->visit(core::Elements(0), receive.elements);
  });
  return Pending(std::move(operation));
}

Pending PeerCommunicator::all_reduce(Span values) {
  return values.bytes() <= kSmall ? all_reduce_small(values) : all_reduce_large(values);
}

Pending PeerCommunicator::all_reduce_small(Span values) {
  auto operation = begin();
  const core::Bytes row = values.bytes();
  std::byte* const staging = operation->staging(staging_, row * (size() - 1));
  const auto rows = rows_of(values.data, rank(), size(), staging, row);
  const auto from = [&](int) { return ConstSpan(values); };
  exchange(*operation, collective(Verb::kAllReduce), from, [&](int peer) {
    return Span{at(staging, row * (peer < rank() ? peer : peer - 1)), values.elements,
                values.dtype};
  });
  operation->then([rows, values](Operation&) { tree_sum_rows(rows, values); });
  return Pending(std::move(operation));
}

Pending PeerCommunicator::all_reduce_large(Span values) {
  auto operation = begin();
  const Span own = part_of(values, rank(), size());
  std::byte* const staging = operation->staging(staging_, own.bytes() * (size() - 1));
  const auto rows = rows_of(own.data, rank(), size(), staging, own.bytes());
  const auto part = [values, parts = size()](int peer) { return part_of(values, peer, parts); };
  Message shape = collective(Verb::kAllReduce);
  exchange(*operation, shape, part, [&](int peer) {
    return Span{at(staging, own.bytes() * (peer < rank() ? peer : peer - 1)), own.elements,
                own.dtype};
  });
  shape.phase = 1;
  operation->then([this, rows, own, part, shape](Operation& self) {
    tree_sum_rows(rows, own);
    exchange(
        self, shape, [&](int) { return own; }, part);
  });
  return Pending(std::move(operation));
}

Pending PeerCommunicator::all_to_all(ConstSpan send, Span receive) {
  FM_CHECK(send.elements == receive.elements, "all_to_all of ", send.elements.count(), " into ",
           receive.elements.count());
  check_parts(send.elements, send.elements / size(), size(), "all_to_all");
  check_dtypes(send.dtype, receive.dtype, "all_to_all");
  auto operation = begin();
  const core::Elements part = send.elements / size();
  const core::Bytes row = core::bytes_of(part, send.dtype);
  const auto from = [&](int peer) {
    return ConstSpan(at(send.data, row * peer), part, send.dtype);
  };
  const auto into = [&](int peer) { return Span{at(receive.data, row * peer), part, send.dtype}; };
  exchange(*operation, collective(Verb::kAllToAll), from, into);
  copy_unless_in_place(from(rank()).data, into(rank()).data, row);
  return Pending(std::move(operation));
}

Pending PeerCommunicator::broadcast(Span values, int root) {
  check_root(root, size());
  auto operation = begin();
  const Message shape = collective(Verb::kBroadcast);
  // The index in the binomial tree; the parent's has the lowest set bit cleared.
  const int place = (rank() - root + size()) % size();
  const auto rank_at = [this, root](int tree_place) { return (tree_place + root) % size(); };
  int reach = 1;  // children are at place + 1, 2, 4 ... below reach
  while (reach < size() && (place & reach) == 0) reach *= 2;
  const Operation::Step to_children = [this, shape, values, place, reach,
                                       rank_at](Operation& self) {
    for (int distance = reach / 2; distance > 0; distance /= 2) {
      if (place + distance >= size()) continue;
      self.send(values.data, message_to(rank_at(place + distance), shape, values));
    }
  };
  if (place == 0) {
    to_children(*operation);
  } else {
    operation->receive(values.data, message_to(rank_at(place & (place - 1)), shape, values));
    operation->then(to_children);
  }
  return Pending(std::move(operation));
}

Pending PeerCommunicator::send(ConstSpan values, int peer) {
  check_peer(peer, rank(), size());
  auto operation = begin();
  const Message shape{.group = group_.id, .sequence = sent_[static_cast<std::size_t>(peer)]++};
  operation->send(values.data, message_to(peer, shape, values));
  return Pending(std::move(operation));
}

Pending PeerCommunicator::receive(Span values, int peer) {
  check_peer(peer, rank(), size());
  auto operation = begin();
  const Message shape{.group = group_.id, .sequence = received_[static_cast<std::size_t>(peer)]++};
  operation->receive(values.data, message_to(peer, shape, values));
  return Pending(std::move(operation));
}

Pending PeerCommunicator::barrier() {
  auto operation = begin();
  const auto nothing = [](int) { return Span{}; };
  exchange(*operation, collective(Verb::kBarrier), nothing, nothing);
  return Pending(std::move(operation));
}

// A backend may wait in open_group without a limit, so all members meet here first.
void PeerCommunicator::meet(const Group& child) {
  auto operation = begin();
  Message shape{.group = group_.id, .sequence = child.id, .verb = Verb::kSplit};
  for (const int world_rank : child.world_ranks) {
    if (world_rank == child.world_ranks[static_cast<std::size_t>(child.rank)]) continue;
    shape.peer = world_rank;
    operation->receive(nullptr, shape);
    operation->send(nullptr, shape);
  }
  operation->wait();
}

std::unique_ptr<PeerCommunicator> PeerCommunicator::split_peers(std::span<const int> members) {
  Group child;
  child.rank = -1;
  for (const int member : members) {
    FM_CHECK(member >= 0 && member < size(), "member ", member, " of a group of ", size());
    const int world_rank = group_.world_ranks[static_cast<std::size_t>(member)];
    FM_CHECK(std::ranges::count(child.world_ranks, world_rank) == 0, "member ", member, " twice");
    if (member == rank()) child.rank = static_cast<int>(child.world_ranks.size());
    child.world_ranks.push_back(world_rank);
  }
  FM_CHECK(child.rank >= 0, "rank ", rank(), " splits off a group that it is no member of");
  child.id = group_id(group_.id, child.world_ranks, splits_[child.world_ranks]++);
  meet(child);
  progress_->fabric().open_group(child.id, child.world_ranks);
  return std::make_unique<PeerCommunicator>(progress_, std::move(child));
}

}  // namespace fm::comm
