// Communication between ranks: eight verbs over (pointer, elements, dtype), all mandatory in every
// backend. Every verb posts its operation and returns a Pending.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "comm/pending.h"
#include "comm/travel.h"
#include "comm/verb_counts.h"
#include "core/blackbox/black_box.h"
#include "core/buffer.h"
#include "core/check.h"
#include "core/queue.h"
#include "core/trace.h"
#include "core/types.h"
#include "core/work.h"

namespace fm::comm {

struct Span {  // memory that a verb writes (or reads and writes)
  void* data = nullptr;
  core::Elements elements;
  core::DType dtype = core::DType::kF32;
  core::Bytes bytes() const { return core::bytes_of(elements, dtype); }
};

struct ConstSpan {  // memory that a verb reads
  const void* data = nullptr;
  core::Elements elements;
  core::DType dtype = core::DType::kF32;
  ConstSpan() = default;
  ConstSpan(const void* pointer, core::Elements count, core::DType type)
      : data(pointer), elements(count), dtype(type) {}
  ConstSpan(const Span& span)  // NOLINT(google-explicit-constructor): a Span may be read
      : data(span.data), elements(span.elements), dtype(span.dtype) {}
  core::Bytes bytes() const { return core::bytes_of(elements, dtype); }
};

inline Span span_of(std::span<float> floats) {
  return {floats.data(), core::Elements(static_cast<std::int64_t>(floats.size())),
          core::DType::kF32};
}

// Is called with parts of a sum while they are still in the cache: elements [first, first + count)
// are final. Parts are in order, and all but the last are whole blocks of 1,024 elements.
class SumVisitor {
 public:
  virtual ~SumVisitor() = default;
  virtual void visit(core::Elements first, core::Elements count) = 0;
  // Called instead where the addition has also computed the sums of squares of the blocks
  // (kernels/pointwise/sums.h).
  virtual void visit(core::Elements first, core::Elements count,
                     std::span<const double> /*squares*/) {
    visit(first, count);
  }
};

// How a backend adds. kFixedTree: in the tree of core/tree.h over the ranks, the same bits in every
// layout. kRepeats: in an order of its own, the same bits in every run of the same group.
// kAnyOrder: neither.
enum class Sums : std::uint8_t { kFixedTree, kRepeats, kAnyOrder };

// A group of ranks.
//
// Invariant: all members post the same collectives in the same order; messages between two
//            ranks match in order of posting.
// Thread:    one thread per rank.
// Lifetime:  communicators from split() may outlive their parent object, not the process group.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string describe() const = 0;  // "tcp, 2 ranks"
  // What reduce_scatter and all_reduce promise. Who needs more asks before the first sum.
  virtual Sums sums() const = 0;

  // receive: size x send.elements, in rank order. `send` may be this rank's part of `receive`.
  virtual Pending all_gather(ConstSpan send, Span receive) = 0;
  // The same from when `ready` has come, an event of the ranks' device: `send` is there then, and
  // who read `receive` before is done. The verb waits for it, and nothing else that is queued; the
  // host does where a backend has no device.
  virtual Pending all_gather_behind(const core::EventPtr& ready, ConstSpan send, Span receive) {
    ready->finish();
    return all_gather(send, receive);
  }
  // send: size x receive.elements; receive = sum over ranks of the rank-th part (fp32, fp64,
  // int64). `receive` may be this rank's part of `send`.
  // `visitor` (may be null) is called before wait() returns, and must live until then; sums in a
  // device's memory have none.
  virtual Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) = 0;
  Pending reduce_scatter(ConstSpan send, Span receive) {
    return reduce_scatter_to(send, receive, nullptr);
  }
  virtual Pending all_reduce(Span values) = 0;  // sum over ranks, in place
  // Part j of send goes to rank j; part i of receive came from rank i. Not in place.
  virtual Pending all_to_all(ConstSpan send, Span receive) = 0;
  virtual Pending broadcast(Span values, int root) = 0;
  virtual Pending send(ConstSpan values, int peer) = 0;
  virtual Pending receive(Span values, int peer) = 0;
  virtual Pending barrier() = 0;

  // A source of memory that the verbs move with the fewest copies: shared with the other ranks
  // where they run on one host, the heap elsewhere. Its buffers must be released before the
  // communicator is destroyed.
  virtual core::MemorySource& memory() { return core::heap(); }
  // A source of memory that all members map: allocate() is collective and gives every member the
  // same bytes. Null where the ranks share no memory. The members agree who writes when; a verb
  // must separate a write from another member's read.
  virtual core::MemorySource* common_memory() { return nullptr; }

  // Whether a group of these members has a common_memory(): the same answer for every rank.
  virtual bool may_share(std::span<const int> /*members*/) const { return false; }

  // Members in the new order, this rank among them; only members call, all in the same order.
  virtual std::unique_ptr<Communicator> split(std::span<const int> members) = 0;

  // How reports call the group; all members give it the same name.
  virtual void set_name(std::string_view /*name*/) {}

  // As split, but what its all_gather, reduce_scatter and large all_reduce send to other hosts
  // travels like that. Backends without hosts send nothing there.
  virtual std::unique_ptr<Communicator> split_narrow(std::span<const int> members, Travel) {
    return split(members);
  }
  // In messages to other hosts so far, of all groups of this rank.
  virtual core::Bytes sent() const { return {}; }
};

// A world of one rank: every verb is a copy or does nothing, so callers need no branch for one
// rank. Sending to or receiving from oneself is a BugError, as in every backend.
std::unique_ptr<Communicator> make_solo();

// A communicator whose verbs are events of the trace. Every verb is one event that has its name,
// the bytes of its whole buffer (the larger of the two), the ranks of the group and the peer or
// root. The event spans the wait, or the posting where posting does all the work; a posting that
// leaves something to wait for is an event "post". Groups that are split off are traced too.
// `inner` must outlive it. `counts`: counts every verb; may be null. `box`: records every verb of a
// group of several ranks, where `inner` is the world; may be null.
std::unique_ptr<Communicator> traced(Communicator& inner, VerbCounts* counts = nullptr,
                                     core::BlackBox* box = nullptr);

}  // namespace fm::comm
