#include "comm/nccl/nccl.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "comm/agree.h"
#include "comm/nccl/nccl_counts.h"
#include "comm/nccl/nccl_group.h"
#include "comm/nccl/nccl_link.h"
#include "comm/staged/staged.h"
#include "core/check.h"
#include "kernels/pointwise/sums.h"

namespace fm::comm {
namespace {

using core::Bytes;
using core::DType;
using core::Elements;

constexpr std::size_t kCollectives = 0;  // the link
// A message is a hidden state or less, and may wait for its sender.
constexpr int kBlocksOfMessages = 8;

std::size_t count_of(Elements elements) { return static_cast<std::size_t>(elements.count()); }
std::size_t count_of(Bytes bytes) { return static_cast<std::size_t>(bytes.count()); }

const void* at(const void* data, Bytes bytes) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + bytes.count();
}
void* at(void* data, Bytes bytes) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + bytes.count();
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return ncclFloat32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF16: return ncclFloat16;
    case DType::kF64: return ncclFloat64;
    case DType::kI32: return ncclInt32;
    case DType::kI64: return ncclInt64;
    case DType::kU8: return ncclUint8;
  }
  return ncclUint8;
}

void check_sum(DType dtype, const char* verb) {
  FM_CHECK(dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64, verb, " of ",
           core::name_of(dtype));
}
void check_parts(Elements whole, Elements part, int parts, const char* verb) {
  FM_CHECK(whole == part * parts, verb, " of ", whole.count(), " elements in ", parts, " parts of ",
           part.count());
}
void check_dtypes(DType send, DType receive, const char* verb) {
  FM_CHECK(send == receive, verb, " of ", core::name_of(send), " into ", core::name_of(receive));
}

// Several calls in one: the first error, if there is one.
class FirstError {
 public:
  void add(ncclResult_t result) {
    if (first_ == ncclSuccess || first_ == ncclInProgress) first_ = result;
  }
  ncclResult_t get() const { return first_; }

 private:
  ncclResult_t first_ = ncclSuccess;
};

// The directions in which messages travel, and the link of each, in an order that all ranks have.
class Ways {
 public:
  Ways(Messages messages, int rank, int size) : messages_(messages), rank_(rank), size_(size) {}

  // Numbers of the directions from one rank, below width().
  int width() const {
    switch (messages_) {
      case Messages::kNone: return 0;
      case Messages::kRing: return 2;
      case Messages::kAll: return size_;
    }
    return 0;
  }
  // -1: there is none.
  int number(int from, int to) const {
    if (from == to) return -1;
    if (messages_ == Messages::kAll) return to;
    if (messages_ == Messages::kNone) return -1;
    if (to == (from + 1) % size_) return 0;
    return to == (from + size_ - 1) % size_ ? 1 : -1;
  }
  // Calls run(from, to) for those of this rank, in one order of all ways: NCCL lets nobody begin or
  // leave one before the other rank does, so two ranks must come to theirs alike.
  template <class Run>
  void for_each(const Run& run) const {
    for (int from = 0; from < size_; ++from) {
      if (from != rank_) {
        if (number(from, rank_) >= 0) run(from, rank_);
        continue;
      }
      for (int to = 0; to < size_; ++to) {
        if (number(rank_, to) >= 0) run(rank_, to);
      }
    }
  }

 private:
  Messages messages_;
  int rank_, size_;
};

// Ids of NCCL for the collectives and every direction, on all ranks.
class Ids {
 public:
  Ids(Communicator& host, const NcclLibrary& library, const Ways& ways)
      : width_(static_cast<std::size_t>(ways.width()) + 1),
        ids_(width_ * static_cast<std::size_t>(host.size())) {
    std::vector<ncclUniqueId> own(width_);
    const auto make = [&](ncclUniqueId& id) {
      const ncclResult_t result = library.get_unique_id(&id);
      FM_MACHINE_CHECK(result == ncclSuccess, core::ExitCode::kRendezvousFailed,
                       "NCCL must make an id for every group; check its network interface "
                       "(NCCL_SOCKET_IFNAME) or set NCCL_DEBUG=INFO (",
                       library.get_error_string(result), ")");
    };
    const std::string problem = first_problem(host, attempt([&] {
                                                if (host.rank() == 0) make(own[0]);
                                                for (int to = 0; to < host.size(); ++to) {
                                                  const int number = ways.number(host.rank(), to);
                                                  if (number >= 0)
                                                    make(own[static_cast<std::size_t>(number) + 1]);
                                                }
                                              }));
    FM_MACHINE_CHECK(problem.empty(), core::ExitCode::kRendezvousFailed, problem);
    host.all_gather({own.data(), bytes_of(own), DType::kU8},
                    {ids_.data(), bytes_of(ids_), DType::kU8})
        .finish();
  }
  const ncclUniqueId& of_group() const { return ids_[0]; }
  const ncclUniqueId& of_way(int from, int number) const {
    return ids_[static_cast<std::size_t>(from) * width_ + static_cast<std::size_t>(number) + 1];
  }

 private:
  static Elements bytes_of(const std::vector<ncclUniqueId>& ids) {
    return Elements(std::ssize(ids) * std::int64_t{sizeof(ncclUniqueId)});
  }
  std::size_t width_;
  std::vector<ncclUniqueId> ids_;  // [ranks, width]
};

// Ends by a call of the host, which has a limit.
class HostTask : public Pending::Task {
 public:
  HostTask(const std::shared_ptr<NcclGroup>& group, Pending host)
      : group_(group), host_(std::move(host)) {}
  void wait() override {
    group_->check();
    host_.finish();
  }

 private:
  std::shared_ptr<NcclGroup> group_;
  Pending host_;
};

class Queued : public Pending::Task {
 public:
  Queued(const std::shared_ptr<NcclGroup>& group, core::EventPtr event)
      : group_(group), event_(std::move(event)) {}
  void wait() override { group_->check(); }
  core::EventPtr landed() override { return event_; }
  void finish() override { group_->finish(*event_); }

 private:
  std::shared_ptr<NcclGroup> group_;
  core::EventPtr event_;
};

// Part `part` of values that `parts` ranks cut among them.
Span part_of(const Span& values, int part, int parts) {
  const std::int64_t per_part = core::ceil_div(values.elements.count(), parts);
  const std::int64_t first = std::min(per_part * part, values.elements.count());
  const std::int64_t last = std::min(first + per_part, values.elements.count());
  return {core::element_at(values.data, Elements(first), values.dtype), Elements(last - first),
          values.dtype};
}

// Memory of a device for as long as it lives.
class CardMemory {
 public:
  CardMemory() = default;
  CardMemory(core::Ledger& ledger, core::MemorySource& source, Bytes bytes)
      : ledger_(&ledger), source_(&source), bytes_(bytes), data_(source.allocate(bytes)) {
    FM_MACHINE_CHECK(data_ != nullptr, core::ExitCode::kOutOfMemory,
                     "memory for sums of ranks must fit in the device; choose a smaller batch or "
                     "\"communication_order\": \"fast\" (asked ",
                     bytes.count(), " bytes)");
    ledger_->charge(core::Account::kScratch, bytes_);
  }
  CardMemory(CardMemory&& other) noexcept { *this = std::move(other); }
  CardMemory& operator=(CardMemory&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(source_, other.source_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~CardMemory() {
    if (data_ == nullptr) return;
    ledger_->discharge(core::Account::kScratch, bytes_);
    source_->release(data_, bytes_);
  }
  // It stays taken: giving it back would wait for what never ends.
  void abandon() {
    if (data_ != nullptr) ledger_->discharge(core::Account::kScratch, bytes_);
    data_ = nullptr;
  }
  void* data() const { return data_; }

 private:
  core::Ledger* ledger_ = nullptr;
  core::MemorySource* source_ = nullptr;
  Bytes bytes_;
  void* data_ = nullptr;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> host, const NcclPlace& place, const NcclUse& use)
      : place_(place), use_(use), host_(std::move(host)), counts_(*host_) {
    check_canonical(use_, size());
    const std::vector<std::string> members = gather_members();
    start(members);
    if (!canonical() || size() == 1) return;
    const CanonicalRows rows = CanonicalRows::of(size(), place_.slice);
    slice_ = rows.each;
    rows_ = CardMemory(place_.ledger, place_.device.memory(), rows.bytes());
    std::vector<int> all(members.size());
    for (int each = 0; each < size(); ++each) all[static_cast<std::size_t>(each)] = each;
    through_host_ = staged(host_->split(all), place_.device);
  }

  // Work that is under way ends first; with an error in flight its peers may be gone.
  ~NcclCommunicator() override {
    try {
      if (std::uncaught_exceptions() == 0) group_->drain();
    } catch (...) {  // of an event: who waited for it was told
    }
    if (group_->end()) return;
    rows_.abandon();
    touched_.abandon();
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string describe() const override {
    return core::concat(name_of(*place_.library), ", ", size(), size() == 1 ? " rank" : " ranks");
  }
  Sums sums() const override { return canonical() ? Sums::kFixedTree : Sums::kRepeats; }

  Pending all_gather(ConstSpan send, Span receive) override {
    return all_gather_behind(computed(), send, receive);
  }
  Pending all_gather_behind(const core::EventPtr& ready, ConstSpan send, Span receive) override {
    check_parts(receive.elements, send.elements, size(), "all_gather");
    check_dtypes(send.dtype, receive.dtype, "all_gather");
    const auto verbs = [&](auto& library, auto comm, auto stream) {
      return library.all_gather(send.data, receive.data, count_of(send.bytes()), ncclUint8, comm,
                                stream);
    };
    return queued(kCollectives, ready, {"all_gather", receive.elements, receive.bytes()},
                  [&] { group_->run(kCollectives, verbs); });
  }

  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    FM_CHECK(visitor == nullptr, "the host does not see sums in the memory of a device");
    check_parts(send.elements, receive.elements, size(), "reduce_scatter");
    check_dtypes(send.dtype, receive.dtype, "reduce_scatter");
    check_sum(send.dtype, "reduce_scatter");
    if (needs_host(send.dtype)) return through_host_->reduce_scatter(send, receive);
    if (adds_here(send.dtype)) {
      const auto parts = [&](int of) {
        return ConstSpan(at(send.data, receive.bytes() * of), receive.elements, receive.dtype);
      };
      return post("reduce_scatter", send, [&] { exchange_and_add(parts, receive); });
    }
    return collective("reduce_scatter", send, [&](auto& library, auto comm, auto stream) {
      return library.reduce_scatter(send.data, receive.data, count_of(receive.elements),
                                    type_of(send.dtype), ncclSum, comm, stream);
    });
  }

  Pending all_reduce(Span values) override {
    check_sum(values.dtype, "all_reduce");
    if (needs_host(values.dtype)) return through_host_->all_reduce(values);
    if (adds_here(values.dtype)) return post("all_reduce", values, [&] { add_and_gather(values); });
    return collective("all_reduce", values, [&](auto& library, auto comm, auto stream) {
      return library.all_reduce(values.data, values.data, count_of(values.elements),
                                type_of(values.dtype), ncclSum, comm, stream);
    });
  }

  Pending all_to_all(ConstSpan send, Span receive) override {
    FM_CHECK(send.elements == receive.elements, "all_to_all of ", send.elements.count(), " into ",
             receive.elements.count());
    check_parts(send.elements, send.elements / size(), size(), "all_to_all");
    check_dtypes(send.dtype, receive.dtype, "all_to_all");
    const Bytes part = core::bytes_of(send.elements / size(), send.dtype);
    return collective("all_to_all", send, [&](auto& library, auto comm, auto stream) {
      FirstError error;
      for (int peer = 0; peer < size(); ++peer) {
        error.add(library.send(at(send.data, part * peer), count_of(part), ncclUint8, peer, comm,
                               stream));
        error.add(library.receive(at(receive.data, part * peer), count_of(part), ncclUint8, peer,
                                  comm, stream));
      }
      return error.get();
    });
  }

  Pending broadcast(Span values, int root) override {
    FM_CHECK(root >= 0 && root < size(), "root ", root, " of ", size());
    return collective("broadcast", values, [&](auto& library, auto comm, auto stream) {
      return library.broadcast(values.data, values.data, count_of(values.bytes()), ncclUint8, root,
                               comm, stream);
    });
  }

  Pending send(ConstSpan values, int peer) override {
    return message("send", link_of(rank(), peer), peer, values,
                   [&](auto& library, auto comm, auto stream) {
                     return library.send(values.data, count_of(values.bytes()), ncclUint8,
                                         peer_in_link(peer), comm, stream);
                   });
  }
  Pending receive(Span values, int peer) override {
    return message("receive", link_of(peer, rank()), peer, values,
                   [&](auto& library, auto comm, auto stream) {
                     return library.receive(values.data, count_of(values.bytes()), ncclUint8,
                                            peer_in_link(peer), comm, stream);
                   });
  }

  // What this rank has queued on compute() before is done when it is through.
  Pending barrier() override {
    group_->finish(*place_.device.compute().record());
    return Pending(std::make_unique<HostTask>(group_, host_->barrier()));
  }

  core::MemorySource& memory() override { return place_.device.memory(); }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    NcclUse use = use_;
    use.name += ", split";
    return nccl(host_->split(members), place_, use);
  }

 private:
  bool canonical() const { return use_.order == core::SumOrder::kCanonical; }
  // int64 has the same sum in every order, and so has fp64 of two ranks.
  bool adds_here(DType dtype) const { return canonical() && dtype == DType::kF32; }
  bool needs_host(DType dtype) const { return canonical() && dtype == DType::kF64 && size() > 2; }

  std::vector<std::string> gather_members() {
    std::vector<std::string> members = gather_texts(*host_, place_.self);
    const std::vector<std::string> cards = gather_texts(*host_, place_.device_id);
    std::map<std::string, std::string> owners;  // of cards
    for (std::size_t each = 0; each < members.size(); ++each) {
      if (members[each].empty()) members[each] = core::concat("rank ", each);
      if (cards[each].empty()) continue;
      const auto [owner, is_new] = owners.emplace(cards[each], members[each]);
      FM_USER_CHECK(is_new,
                    "every rank needs a card of its own for NCCL; start one rank per card, or "
                    "share cards by staging (",
                    owner->second, " and ", members[each], " have ", cards[each], ")");
    }
    return members;
  }

  void start(const std::vector<std::string>& members) {
    const Ways ways(use_.messages, rank(), size());
    const Ids ids(*host_, *place_.library, ways);
    group_ = std::make_shared<NcclGroup>(NcclGroupOptions{.name = use_.name,
                                                          .members = members,
                                                          .rank = rank(),
                                                          .limit_ms = place_.limit_ms,
                                                          .end_ms = place_.end_ms,
                                                          .clock = place_.clock,
                                                          .on_end = place_.on_end,
                                                          .use_device = place_.use_device},
                                         counts_);
    const std::string problem = first_problem(*host_, attempt([&] {
      begin({.rank = rank()}, {ids.of_group(), size(), rank()});
      ways.for_each([&](int from, int to) {
        link_of_way_[{from, to}] = link_of_way_.size() + 1;
        begin({.from = from, .to = to, .rank = rank()},
              {ids.of_way(from, ways.number(from, to)), 2,
               1 - peer_in_link(from == rank() ? to : from), kBlocksOfMessages});
      });
      first_verbs(ways);
    }));
    if (problem.empty()) return;
    if (!group_->end()) touched_.abandon();
    throw core::MachineError(core::ExitCode::kRendezvousFailed, problem);
  }
  void begin(const PostSeat& seat, const NcclLink::Seat& place) {
    auto link = std::make_shared<NcclLink>(place_.library, place_.make_queue());
    const ncclResult_t result = link->begin(place);
    const std::string words = link->describe(result);
    group_->add(std::move(link), seat);
    FM_MACHINE_CHECK(result == ncclSuccess || result == ncclInProgress,
                     core::ExitCode::kRendezvousFailed,
                     "NCCL must start every group; read its message, or set NCCL_DEBUG=INFO "
                     "(group ",
                     use_.name, ": ", words, ")");
  }

  // One number per link, and a byte for each rank.
  void first_verbs(const Ways& ways) {
    const Bytes each(64);
    const Bytes of_links = each * static_cast<std::int64_t>(1 + link_of_way_.size());
    const Bytes all = of_links + Bytes(size());
    touched_ = CardMemory(place_.ledger, place_.device.memory(), all);
    const auto place = [this, each](std::size_t link) {
      return at(touched_.data(), each * static_cast<std::int64_t>(link));
    };
    std::vector<NcclLink::Verbs> verbs(1 + link_of_way_.size());
    verbs[kCollectives] = [this, data = place(kCollectives), of_links](auto& library, auto comm,
                                                                       auto stream) {
      FirstError error;
      error.add(library.all_reduce(data, data, 1, ncclFloat32, ncclSum, comm, stream));
      if (use_.order != core::SumOrder::kCanonical && !use_.exchanges) return error.get();
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        void* const byte = at(touched_.data(), of_links + Bytes(peer));
        error.add(library.send(data, 1, ncclUint8, peer, comm, stream));
        error.add(library.receive(byte, 1, ncclUint8, peer, comm, stream));
      }
      return error.get();
    };
    ways.for_each([&](int from, int to) {
      const std::size_t link = link_of(from, to);
      const bool sends = from == rank();
      const int peer = peer_in_link(sends ? to : from);
      verbs[link] = [data = place(link), sends, peer](auto& library, auto comm, auto stream) {
        return sends ? library.send(data, 1, ncclUint8, peer, comm, stream)
                     : library.receive(data, 1, ncclUint8, peer, comm, stream);
      };
    });
    group_->start(place_.start_ms, place_.device.compute(),
                  [&](std::size_t link) { return verbs[link]; });
  }

  std::size_t link_of(int from, int to) const {
    const auto found = link_of_way_.find({from, to});
    FM_CHECK(found != link_of_way_.end(), "group ", use_.name, " of ", size(),
             " ranks carries no messages from ", from, " to ", to);
    return found->second;
  }

  // The lower rank of a message's two is rank 0 of their link.
  int peer_in_link(int peer) const { return rank() < peer ? 1 : 0; }

  template <class Body>
  Pending post(const char* verb, const ConstSpan& whole, const Body& body) {
    return queued(kCollectives, computed(), {verb, whole.elements, whole.bytes()}, body);
  }
  template <class Verbs>
  Pending collective(const char* verb, const ConstSpan& whole, const Verbs& verbs) {
    return post(verb, whole, [&] { group_->run(kCollectives, verbs); });
  }
  template <class Verbs>
  Pending message(const char* verb, std::size_t link, int peer, const ConstSpan& values,
                  const Verbs& verbs) {
    return queued(link, computed(), {verb, values.elements, values.bytes(), peer},
                  [&] { group_->run(link, verbs); });
  }
  // Behind what this rank computes so far.
  core::EventPtr computed() const {
    group_->check();
    return place_.device.compute().record();
  }
  template <class Body>
  Pending queued(std::size_t link, core::EventPtr due, const NcclPost& post, const Body& body) {
    core::EventPtr event = group_->post(link, std::move(due), post, body);
    return Pending(std::make_unique<Queued>(group_, std::move(event)));
  }

  // out = the sum, in the tree, of what the ranks have as this rank's part. parts(rank): what this
  // rank has of another's; no part has more elements than part 0.
  template <class Parts>
  void exchange_and_add(const Parts& parts, const Span& out) {
    const Elements slice = size() == 1 ? parts(0).elements : slice_;
    for (Elements first; first < parts(0).elements; first += slice) {
      const auto piece_of = [&](int of) {
        const ConstSpan part = parts(of);
        const Elements begin = std::min(first, part.elements);
        return ConstSpan(core::element_at(const_cast<void*>(part.data), begin, part.dtype),
                         std::min(slice, part.elements - begin), part.dtype);
      };
      exchange_pieces(piece_of);
      const ConstSpan own = piece_of(rank());
      if (own.elements.count() == 0) continue;
      std::vector<const float*> rows;
      for (int peer = 0; peer < size(); ++peer) {
        rows.push_back(peer == rank() ? static_cast<const float*>(own.data) : row_of(peer));
      }
      const core::Work work{.arena = {}, .queue = &group_->queue(kCollectives)};
      kernels::tree_add(work, rows, own.elements.count(),
                        static_cast<float*>(core::element_at(out.data, first, out.dtype)));
    }
  }

  template <class Pieces>
  void exchange_pieces(const Pieces& piece_of) {
    if (size() == 1) return;
    const std::size_t own = count_of(piece_of(rank()).elements);
    group_->run(kCollectives, [&](auto& library, auto comm, auto stream) {
      FirstError error;
      for (int step = 1; step < size(); ++step) {
        const int to = (rank() + step) % size();
        const ConstSpan piece = piece_of(to);
        if (piece.elements.count() > 0)
          error.add(
              library.send(piece.data, count_of(piece.elements), ncclFloat32, to, comm, stream));
        const int from = (rank() + size() - step) % size();
        if (own > 0) error.add(library.receive(row_of(from), own, ncclFloat32, from, comm, stream));
      }
      return error.get();
    });
  }
  float* row_of(int peer) const {
    return static_cast<float*>(rows_.data()) + (slice_ * (peer < rank() ? peer : peer - 1)).count();
  }

  void add_and_gather(const Span& values) {
    const auto part = [&](int of) { return part_of(values, of, size()); };
    const Span own = part(rank());
    exchange_and_add(part, own);
    if (size() == 1) return;
    group_->run(kCollectives, [&](auto& library, auto comm, auto stream) {
      FirstError error;
      for (int step = 1; step < size(); ++step) {
        const int to = (rank() + step) % size();
        if (own.elements.count() > 0)
          error.add(library.send(own.data, count_of(own.elements), ncclFloat32, to, comm, stream));
        const int from = (rank() + size() - step) % size();
        const Span there = part(from);
        if (there.elements.count() > 0)
          error.add(library.receive(there.data, count_of(there.elements), ncclFloat32, from, comm,
                                    stream));
      }
      return error.get();
    });
  }

  NcclPlace place_;
  NcclUse use_;
  std::unique_ptr<Communicator> host_;
  NcclCounts counts_;
  std::shared_ptr<NcclGroup> group_;
  std::map<std::pair<int, int>, std::size_t> link_of_way_;  // of messages (from, to)
  CardMemory touched_;                                      // of the first verbs
  Elements slice_;                                          // of a row
  CardMemory rows_;                                         // where parts of other ranks arrive
  std::unique_ptr<Communicator> through_host_;              // for sums that need it
};

}  // namespace

std::unique_ptr<Communicator> nccl(std::unique_ptr<Communicator> host, const NcclPlace& place,
                                   const NcclUse& use) {
  return std::make_unique<NcclCommunicator>(std::move(host), place, use);
}

}  // namespace fm::comm
