#include "comm/communicator.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/trace.h"

namespace fm::comm {
namespace {

using core::BoxVerb;
using core::TraceForm;

class Solo : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string describe() const override { return "solo, 1 rank"; }
  Sums sums() const override { return Sums::kFixedTree; }

  Pending all_gather(ConstSpan send, Span receive) override { return copy(send, receive); }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    copy(send, receive);
    if (visitor != nullptr) visitor->visit(core::Elements(0), receive.elements);
    return {};
  }
  Pending all_reduce(Span) override { return {}; }
  Pending all_to_all(ConstSpan send, Span receive) override { return copy(send, receive); }
  Pending broadcast(Span, int root) override {
    FM_CHECK(root == 0, "root ", root, " in a world of one");
    return {};
  }
  Pending send(ConstSpan, int peer) override { return no_peer(peer); }
  Pending receive(Span, int peer) override { return no_peer(peer); }
  Pending barrier() override { return {}; }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    FM_CHECK(members.size() == 1 && members[0] == 0, "a world of one splits into itself only");
    return make_solo();
  }

 private:
  static Pending copy(const ConstSpan& from, const Span& to) {
    FM_CHECK(from.elements == to.elements && from.dtype == to.dtype, "copy of ",
             from.elements.count(), " ", core::name_of(from.dtype), " into ", to.elements.count(),
             " ", core::name_of(to.dtype));
    if (from.data != to.data && from.bytes() > core::Bytes(0)) {
      std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes().count()));
    }
    return {};
  }

  static Pending no_peer(int peer) {
    FM_CHECK(false, "a world of one has no peer ", peer);
    return {};
  }
};

constexpr TraceForm verb_form(const char* name, const char* partner = nullptr) {
  return {name, core::TraceKind::kCollective, {"bytes", "ranks", partner}};
}
constexpr TraceForm kAllGather = verb_form("all_gather");
constexpr TraceForm kReduceScatter = verb_form("reduce_scatter");
constexpr TraceForm kAllReduce = verb_form("all_reduce");
constexpr TraceForm kAllToAll = verb_form("all_to_all");
constexpr TraceForm kBroadcast = verb_form("broadcast", "root");
constexpr TraceForm kSend = verb_form("send", "peer");
constexpr TraceForm kReceive = verb_form("receive", "peer");
constexpr TraceForm kBarrier = verb_form("barrier");
constexpr TraceForm kPost = {"post", core::TraceKind::kPart};

// Who looks on.
struct Observers {
  VerbCounts* counts = nullptr;
  core::BlackBox* box = nullptr;
};

// Invariant: adds events and changes nothing else.
// Thread:    as of `inner`.
// Lifetime:  not longer than `inner`, which it owns where split() made it.
class TracedCommunicator : public Communicator {
 public:
  TracedCommunicator(Communicator& inner, const Observers& observers)
      : inner_(inner), counts_(observers.counts), box_(observers.box) {
    for (int rank = 0; rank < inner.size(); ++rank) world_ranks_.push_back(rank);
    join_box("world");
  }
  TracedCommunicator(std::unique_ptr<Communicator> inner, const Observers& observers,
                     std::vector<int> world_ranks)
      : owned_(std::move(inner)),
        inner_(*owned_),
        counts_(observers.counts),
        box_(observers.box),
        world_ranks_(std::move(world_ranks)) {
    join_box("group");
  }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string describe() const override { return inner_.describe(); }
  Sums sums() const override { return inner_.sums(); }

  Pending all_gather(ConstSpan send, Span receive) override {
    return show({kAllGather, BoxVerb::kAllGather, receive},
                [&] { return inner_.all_gather(send, receive); });
  }
  Pending all_gather_behind(const core::EventPtr& ready, ConstSpan send, Span receive) override {
    return show({kAllGather, BoxVerb::kAllGather, receive},
                [&] { return inner_.all_gather_behind(ready, send, receive); });
  }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    return show({kReduceScatter, BoxVerb::kReduceScatter, send},
                [&] { return inner_.reduce_scatter_to(send, receive, visitor); });
  }
  Pending all_reduce(Span values) override {
    return show({kAllReduce, BoxVerb::kAllReduce, values},
                [&] { return inner_.all_reduce(values); });
  }
  Pending all_to_all(ConstSpan send, Span receive) override {
    return show({kAllToAll, BoxVerb::kAllToAll, send},
                [&] { return inner_.all_to_all(send, receive); });
  }
  Pending broadcast(Span values, int root) override {
    return show({kBroadcast, BoxVerb::kBroadcast, values, root},
                [&] { return inner_.broadcast(values, root); });
  }
  Pending send(ConstSpan values, int peer) override {
    return show({kSend, BoxVerb::kSend, values, peer}, [&] { return inner_.send(values, peer); });
  }
  Pending receive(Span values, int peer) override {
    return show({kReceive, BoxVerb::kReceive, values, peer},
                [&] { return inner_.receive(values, peer); });
  }
  Pending barrier() override {
    return show({kBarrier, BoxVerb::kBarrier, {}}, [&] { return inner_.barrier(); });
  }

  core::MemorySource& memory() override { return inner_.memory(); }
  core::MemorySource* common_memory() override { return inner_.common_memory(); }
  bool may_share(std::span<const int> members) const override { return inner_.may_share(members); }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return traced(inner_.split(members), members);
  }
  void set_name(std::string_view name) override {
    if (box_ != nullptr && size() > 1) box_->rename_group(group_, std::string(name));
  }
  std::unique_ptr<Communicator> split_narrow(std::span<const int> members, Travel travel) override {
    return traced(inner_.split_narrow(members, travel), members);
  }
  core::Bytes sent() const override { return inner_.sent(); }

 private:
  std::unique_ptr<Communicator> traced(std::unique_ptr<Communicator> group,
                                       std::span<const int> members) const {
    std::vector<int> world_ranks;
    for (const int member : members) {
      world_ranks.push_back(world_ranks_[static_cast<std::size_t>(member)]);
    }
    return std::make_unique<TracedCommunicator>(std::move(group), Observers{counts_, box_},
                                                std::move(world_ranks));
  }

  struct Call {
    const TraceForm& form;
    BoxVerb verb;
    ConstSpan what;
    int partner = -1;
  };

  // One rank alone meets nobody.
  void join_box(const char* name) {
    if (box_ != nullptr && size() > 1) group_ = box_->add_group(name, world_ranks_, rank());
  }

  template <class Post>
  Pending show(const Call& call, const Post& post) {
    if (group_ < 0) return trace(call, post);
    const std::uint64_t number = box_->begin_verb({.verb = call.verb,
                                                   .group = group_,
                                                   .partner = call.partner,
                                                   .elements = call.what.elements,
                                                   .dtype = call.what.dtype});
    Pending pending = trace(call, post);
    if (pending.done()) {
      box_->done(number);
    } else {
      box_->posted(number);
      pending.record_in(*box_, number);
    }
    return pending;
  }

  template <class Post>
  Pending trace(const Call& call, const Post& post) {
    core::TraceRecorder* const recorder = core::TraceRecorder::current();
    if (recorder == nullptr && counts_ == nullptr) return post();
    const std::int64_t bytes = call.what.bytes().count();
    const core::TraceValues values = {bytes, size(), call.partner};
    core::TraceEvent* const event = recorder == nullptr ? nullptr : recorder->begin(kPost, values);
    const std::int64_t before = core::trace_now();
    Pending pending = post();
    // The name of the event depends on whether posting left something to do.
    if (event != nullptr && pending.done()) event->form = &call.form;
    if (recorder != nullptr) recorder->end(event);
    std::int64_t* spent_ns = nullptr;
    if (counts_ != nullptr) {
      VerbCounts::Total& row = counts_->at({call.form.name, bytes, size()});
      ++row.count;
      row.ns += core::trace_now() - before;
      spent_ns = &row.ns;
    }
    pending.show_as(call.form, values, spent_ns);
    return pending;
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  VerbCounts* counts_;
  core::BlackBox* box_;
  std::vector<int> world_ranks_;
  int group_ = -1;  // of box_; -1: it records nothing here
};

}  // namespace

std::unique_ptr<Communicator> make_solo() { return std::make_unique<Solo>(); }

std::unique_ptr<Communicator> traced(Communicator& inner, VerbCounts* counts, core::BlackBox* box) {
  return std::make_unique<TracedCommunicator>(inner, Observers{counts, box});
}

}  // namespace fm::comm
