#include "comm/communicator.h"

#include <cstring>
#include <utility>

#include "core/trace.h"

namespace fm::comm {
namespace {

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

// Invariant: adds events and changes nothing else.
// Thread:    as of `inner`.
// Lifetime:  not longer than `inner`, which it owns where split() made it.
class TracedCommunicator : public Communicator {
 public:
  TracedCommunicator(Communicator& inner, VerbCounts* counts) : inner_(inner), counts_(counts) {}
  TracedCommunicator(std::unique_ptr<Communicator> inner, VerbCounts* counts)
      : owned_(std::move(inner)), inner_(*owned_), counts_(counts) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string describe() const override { return inner_.describe(); }
  Sums sums() const override { return inner_.sums(); }

  Pending all_gather(ConstSpan send, Span receive) override {
    return show(kAllGather, receive.bytes(), [&] { return inner_.all_gather(send, receive); });
  }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    return show(kReduceScatter, send.bytes(),
                [&] { return inner_.reduce_scatter_to(send, receive, visitor); });
  }
  Pending all_reduce(Span values) override {
    return show(kAllReduce, values.bytes(), [&] { return inner_.all_reduce(values); });
  }
  Pending all_to_all(ConstSpan send, Span receive) override {
    return show(kAllToAll, send.bytes(), [&] { return inner_.all_to_all(send, receive); });
  }
  Pending broadcast(Span values, int root) override {
    return show(
        kBroadcast, values.bytes(), [&] { return inner_.broadcast(values, root); }, root);
  }
  Pending send(ConstSpan values, int peer) override {
    return show(
        kSend, values.bytes(), [&] { return inner_.send(values, peer); }, peer);
  }
  Pending receive(Span values, int peer) override {
    return show(
        kReceive, values.bytes(), [&] { return inner_.receive(values, peer); }, peer);
  }
  Pending barrier() override {
    return show(kBarrier, core::Bytes(0), [&] { return inner_.barrier(); });
  }

  core::MemorySource& memory() override { return inner_.memory(); }
  core::MemorySource* common_memory() override { return inner_.common_memory(); }
  bool may_share(std::span<const int> members) const override { return inner_.may_share(members); }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return std::make_unique<TracedCommunicator>(inner_.split(members), counts_);
  }
  std::unique_ptr<Communicator> split_narrow(std::span<const int> members, Travel travel) override {
    return std::make_unique<TracedCommunicator>(inner_.split_narrow(members, travel), counts_);
  }
  core::Bytes sent() const override { return inner_.sent(); }

 private:
  template <class Post>
  Pending show(const TraceForm& form, core::Bytes bytes, const Post& post, int partner = -1) {
    core::TraceRecorder* const recorder = core::TraceRecorder::current();
    if (recorder == nullptr && counts_ == nullptr) return post();
    const core::TraceValues values = {bytes.count(), size(), partner};
    core::TraceEvent* const event = recorder == nullptr ? nullptr : recorder->begin(kPost, values);
    const std::int64_t before = core::trace_now();
    Pending pending = post();
    // The name of the event depends on whether posting left something to do.
    if (event != nullptr && pending.done()) event->form = &form;
    if (recorder != nullptr) recorder->end(event);
    std::int64_t* spent_ns = nullptr;
    if (counts_ != nullptr) {
      VerbCounts::Total& row = counts_->at({form.name, bytes.count(), size()});
      ++row.count;
      row.ns += core::trace_now() - before;
      spent_ns = &row.ns;
    }
    pending.show_as(form, values, spent_ns);
    return pending;
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  VerbCounts* counts_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo() { return std::make_unique<Solo>(); }

std::unique_ptr<Communicator> traced(Communicator& inner, VerbCounts* counts) {
  return std::make_unique<TracedCommunicator>(inner, counts);
}

}  // namespace fm::comm
