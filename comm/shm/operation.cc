#include "comm/shm/operation.h"

#include <algorithm>
#include <utility>

#include "comm/verbs/tree_rows.h"
#include "core/check.h"
#include "core/trace.h"
#include "kernels/pointwise/sums.h"

namespace fm::comm {
namespace {

// out = the sum over all rows of the values at `offset`.
void sum_at(const ShmWork& work, core::Bytes offset, Span out) {
  RowList<const void*> rows(work.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = work.rows[i] + offset.count();
  tree_sum_rows(rows, out);
}

// Elements that are summed at a time and used while they are in the cache; whole blocks of the
// norm.
constexpr std::int64_t kPart = 4096;

// Elements of a sum of two rows whose squares are computed in the same pass.
constexpr std::int64_t kSquaresPart = 16384;

// All parts of a sum are one event of the trace.
constexpr core::TraceForm kSumAndVisit = {
    "tree_add+squared_norm", core::TraceKind::kKernel, {"elements", "bytes", "rows"}};
constexpr core::TraceForm kSumAndSpread = {
    "tree_add+copy", core::TraceKind::kKernel, {"elements", "bytes", "rows"}};

core::TraceValues sum_of(const ShmWork& work, core::Elements sum, core::DType dtype) {
  const auto rows = std::ssize(work.rows);
  return {sum.count(), core::bytes_of(sum * (rows + 1), dtype).count(), rows};
}

// For a sum of two rows whose result overwrites the receiver's own row: the other row's part; else
// null.
const float* other_row(const ShmWork& work, core::Bytes begin) {
  if (work.rows.size() != 2 || work.receive.dtype != core::DType::kF32) return nullptr;
  const std::byte* const own = work.rows[static_cast<std::size_t>(work.rank)] + begin.count();
  const std::byte* const other = work.rows[static_cast<std::size_t>(1 - work.rank)] + begin.count();
  return own == work.receive.data ? reinterpret_cast<const float*>(other) : nullptr;
}

void add_and_visit(const ShmWork& work, const float* other) {
  auto* const sum = static_cast<float*>(work.receive.data);
  const std::int64_t count = work.receive.elements.count();
  for (std::int64_t at = 0; at < count; at += kSquaresPart) {
    const std::int64_t here = std::min(kSquaresPart, count - at);
    double blocks[kSquaresPart / kernels::kNormBlock];
    const auto squares =
        std::span(blocks).first(static_cast<std::size_t>(kernels::norm_blocks(here)));
    kernels::add_squares(core::Work(), here, other + at, sum + at, squares);
    work.visitor->visit(core::Elements(at), core::Elements(here), squares);
  }
}

void reduce_scatter(const ShmWork& work) {
  const core::Bytes begin = work.receive.bytes() * work.rank;
  if (work.visitor == nullptr) return sum_at(work, begin, work.receive);
  const core::DType dtype = work.receive.dtype;
  const core::TraceScope scope(kSumAndVisit, sum_of(work, work.receive.elements, dtype));
  if (const float* const other = other_row(work, begin)) return add_and_visit(work, other);
  const std::int64_t count = work.receive.elements.count();
  for (std::int64_t at = 0; at < count; at += kPart) {
    const core::Elements here(std::min(kPart, count - at));
    const core::Bytes offset = core::bytes_of(core::Elements(at), dtype);
    sum_at(work, begin + offset,
           {static_cast<std::byte*>(work.receive.data) + offset.count(), here, dtype});
    work.visitor->visit(core::Elements(at), here);
  }
}

}  // namespace

void shm_work(const ShmWork& work) {
  auto* const out = static_cast<std::byte*>(work.receive.data);
  const core::Bytes whole = work.receive.bytes();
  const int size = static_cast<int>(work.rows.size());
  switch (work.verb) {
    case Verb::kAllGather:
      for (int step = 1; step <= size; ++step) {  // own part last; ranks start at different peers
        const int member = (work.rank + step) % size;
        const void* const from =
            member == work.rank ? work.own.data : work.rows[static_cast<std::size_t>(member)];
        copy_bytes(from, out + (work.own.bytes() * member).count(), work.own.bytes());
      }
      return;
    case Verb::kReduceScatter: return reduce_scatter(work);
    case Verb::kAllReduce: return sum_at(work, core::Bytes(0), work.receive);
    case Verb::kAllToAll: {
      const core::Bytes part = whole / size;
      for (int step = 0; step < size; ++step) {
        const int member = (work.rank + step) % size;
        copy_bytes(work.rows[static_cast<std::size_t>(member)] + (part * work.rank).count(),
                   out + (part * member).count(), part);
      }
      return;
    }
    case Verb::kBroadcast:
      if (work.rank != work.root)
        copy_bytes(work.rows[static_cast<std::size_t>(work.root)], out, whole);
      return;
    case Verb::kBarrier: return;
    case Verb::kMessage:
    case Verb::kSplit: break;
  }
  FM_CHECK(false, name_of(work.verb), " is no collective");
}

void shm_all_reduce_in_place(const ShmWork& work) {
  const auto size = static_cast<std::int64_t>(work.rows.size());
  const core::DType dtype = work.own.dtype;
  const std::int64_t count = work.own.elements.count();
  const std::int64_t part = core::ceil_div(count, size);
  const std::int64_t first = std::min(part * work.rank, count);
  const std::int64_t last = std::min(first + part, count);
  const core::TraceScope scope(kSumAndSpread, sum_of(work, core::Elements(last - first), dtype));
  if (size == 2 && dtype == core::DType::kF32) {
    const auto row = [&](std::size_t member) {
      return reinterpret_cast<float*>(work.rows[member]) + first;
    };
    kernels::tree_add_to_both(core::Work(), last - first, row(0), row(1));
    return;
  }
  for (std::int64_t at = first; at < last; at += kPart) {
    const core::Elements here(std::min(kPart, last - at));
    const core::Bytes offset = core::bytes_of(core::Elements(at), dtype);
    std::byte* const sum = work.rows[static_cast<std::size_t>(work.rank)] + offset.count();
    sum_at(work, offset, {sum, here, dtype});
    for (std::byte* const row : work.rows) {
      copy_bytes(sum, row + offset.count(), core::bytes_of(here, dtype));
    }
  }
}

ShmStaging::~ShmStaging() {
  if (data_ != nullptr) host_.own().release(data_, bytes_);
}

SharedAddress ShmStaging::publish(const ConstSpan& values) {
  const SharedAddress place = host_.place_of(values.data);
  if (place.region >= 0 || values.bytes() == core::Bytes(0)) return place;
  bytes_ = values.bytes();
  data_ = host_.own().allocate(bytes_);
  FM_MACHINE_CHECK(data_ != nullptr, core::ExitCode::kOutOfMemory,
                   "a message between ranks of one host must fit in shared memory; free memory or "
                   "pass --shm false (asked ",
                   bytes_.count(), " bytes)");
  copy_bytes(values.data, data_, bytes_);
  return host_.place_of(data_);
}

ShmCollective::ShmCollective(std::shared_ptr<Progress> progress, std::shared_ptr<ShmGroup> group,
                             std::uint64_t sequence, ShmCall call)
    : Posted(std::move(progress), By::kMemory),
      group_(std::move(group)),
      sequence_(sequence),
      call_(std::move(call)),
      staging_(group_->host()) {
  advance();
}

bool ShmCollective::inlined() const { return call_.bytes() <= kShmInline; }

Message ShmCollective::message(int member) const {
  return {.group = group_->group().id,
          .sequence = sequence_,
          .peer = group_->world_rank(member),
          .verb = call_.verb,
          .dtype = call_.send.dtype,
          .bytes = call_.bytes()};
}

std::optional<Message> ShmCollective::missing() const {
  const int member = late_member();
  return message(member >= 0 ? member : group_->rank());
}

// The member that this operation waits for; -1 when no member is late.
int ShmCollective::late_member() const {
  if (phase_ == CollectivePhase::kWorked) return group_->first_not_done(sequence_);
  // A queued operation waits for the previous operation of its entry.
  const bool queued = phase_ == CollectivePhase::kQueued && sequence_ >= kShmRing;
  const std::uint64_t sequence = queued ? sequence_ - kShmRing : sequence_;
  const int not_posted = group_->first_not_posted(sequence);
  return not_posted < 0 && queued ? group_->first_not_done(sequence) : not_posted;
}

void ShmCollective::post() {
  MemberWords::Entry& entry = group_->entry(group_->rank(), sequence_);
  entry.posting = {.verb = call_.verb,
                   .dtype = call_.send.dtype,
                   .root = call_.root,
                   .bytes = call_.bytes(),
                   .from = {}};
  if (inlined()) {
    copy_bytes(call_.send.data, entry.payload, call_.send.bytes());
  } else if (call_.verb != Verb::kBroadcast || call_.work != nullptr ||
             call_.root == group_->rank()) {
    const bool joins = call_.verb == Verb::kReduceScatter && call_.work == nullptr;
    if (joins) entry.posting.from = group_->host().place_of_joined(call_.send.data);
    if (entry.posting.from.without < 0) entry.posting.from = staging_.publish(call_.send);
  }
  entry.ticket.store(sequence_ + 1, std::memory_order_release);
  group_->count_post();
  group_->ring_all();
}

void ShmCollective::check_member(int member) const {
  const Posting& theirs = group_->entry(member, sequence_).posting;
  if (theirs.verb == call_.verb && theirs.bytes == call_.bytes() &&
      theirs.dtype == call_.send.dtype && theirs.root == call_.root)
    return;
  Message there = message(member);
  there.verb = theirs.verb;
  there.dtype = theirs.dtype;
  there.bytes = theirs.bytes;
  check_agreement(message(member), there, peer_name(there.peer));
  const auto words = [&](int root) {
    return core::concat(name_of(call_.verb), " with root ", root);
  };
  throw_disagreement({sequence_, words(call_.root), words(theirs.root), peer_name(there.peer)});
}

// The address of a member's contribution at which this rank's part has its offset.
std::byte* ShmCollective::row_of(int member, SharedAddress from) const {
  std::byte* const row = group_->host().at(from);
  if (from.without < 0) return row;
  if (member == group_->rank())
    return const_cast<std::byte*>(static_cast<const std::byte*>(call_.send.data));
  return from.without < group_->rank() ? row - call_.receive.bytes().count() : row;
}

void ShmCollective::work() {
  RowList<std::byte*> rows(static_cast<std::size_t>(group_->size()));
  for (int member = 0; member < group_->size(); ++member) {
    check_member(member);
    MemberWords::Entry& entry = group_->entry(member, sequence_);
    rows[static_cast<std::size_t>(member)] =
        inlined() ? entry.payload : row_of(member, entry.posting.from);
  }
  if (call_.work != nullptr) return call_.work(rows);
  const ShmWork work = {.verb = call_.verb,
                        .rank = group_->rank(),
                        .root = call_.root,
                        .own = call_.send,
                        .receive = call_.receive,
                        .rows = rows,
                        .visitor = call_.visitor};
  if (call_.verb == Verb::kAllReduce && !inlined()) {
    shm_all_reduce_in_place(work);
  } else {
    shm_work(work);
  }
}

void ShmCollective::end() {
  const bool in_place = call_.verb == Verb::kAllReduce && call_.work == nullptr;
  if (in_place && staging_.data() != nullptr) {
    copy_bytes(staging_.data(), call_.receive.data, call_.receive.bytes());
  }
  phase_ = CollectivePhase::kFinished;
}

bool ShmCollective::advance() {
  MemberWords& mine = group_->words(group_->rank());
  switch (phase_) {
    case CollectivePhase::kQueued:
      if (!group_->may_post(sequence_)) return false;
      post();
      phase_ = CollectivePhase::kPosted;
      return true;
    case CollectivePhase::kPosted:
      if (mine.done.load(std::memory_order_relaxed) != sequence_) return false;
      if (group_->first_not_posted(sequence_) >= 0) return false;
      work();
      mine.done.store(sequence_ + 1, std::memory_order_release);
      group_->ring_all();
      phase_ = CollectivePhase::kWorked;
      if (inlined()) end();  // peers still read from the words alone
      return true;
    case CollectivePhase::kWorked:
      if (group_->first_not_done(sequence_) >= 0) return false;
      end();
      return true;
    case CollectivePhase::kFinished: break;
  }
  return false;
}

ShmMessage::ShmMessage(std::shared_ptr<Progress> progress, std::shared_ptr<ShmGroup> group,
                       const ShmParcel& parcel)
    : Posted(std::move(progress), By::kMemory),
      group_(std::move(group)),
      parcel_(parcel),
      staging_(group_->host()) {
  advance();
}

Message ShmMessage::message() const {
  const bool sends = parcel_.way == ShmParcel::Way::kSend;
  return {.group = group_->group().id,
          .sequence = parcel_.sequence,
          .peer = group_->world_rank(parcel_.peer),
          .verb = Verb::kMessage,
          .dtype = sends ? parcel_.send.dtype : parcel_.receive.dtype,
          .bytes = sends ? parcel_.send.bytes() : parcel_.receive.bytes()};
}

bool ShmMessage::advance() {
  if (finished()) return false;
  return parcel_.way == ShmParcel::Way::kSend ? advance_send() : advance_receive();
}

bool ShmMessage::advance_send() {
  ChannelWords& mine = group_->channel(group_->rank(), parcel_.peer);
  const std::uint64_t taken =
      group_->channel(parcel_.peer, group_->rank()).taken.load(std::memory_order_acquire);
  if (phase_ == MessagePhase::kPosted) {
    if (taken <= parcel_.sequence) return false;
    phase_ = MessagePhase::kFinished;
    return true;
  }
  if (mine.sent.load(std::memory_order_relaxed) != parcel_.sequence) return false;
  if (parcel_.sequence >= taken + ChannelWords::kRing) return false;
  mine.postings[parcel_.sequence % ChannelWords::kRing] = {.verb = Verb::kMessage,
                                                           .dtype = parcel_.send.dtype,
                                                           .root = 0,
                                                           .bytes = parcel_.send.bytes(),
                                                           .from = staging_.publish(parcel_.send)};
  mine.sent.store(parcel_.sequence + 1, std::memory_order_release);
  group_->ring(parcel_.peer);
  phase_ = MessagePhase::kPosted;
  return true;
}

bool ShmMessage::advance_receive() {
  ChannelWords& mine = group_->channel(group_->rank(), parcel_.peer);
  ChannelWords& theirs = group_->channel(parcel_.peer, group_->rank());
  if (mine.taken.load(std::memory_order_relaxed) != parcel_.sequence) return false;
  if (theirs.sent.load(std::memory_order_acquire) <= parcel_.sequence) return false;
  const Posting& posting = theirs.postings[parcel_.sequence % ChannelWords::kRing];
  if (posting.bytes != parcel_.receive.bytes() || posting.dtype != parcel_.receive.dtype) {
    Message there = message();
    there.dtype = posting.dtype;
    there.bytes = posting.bytes;
    check_agreement(message(), there, peer_name(there.peer));
  }
  if (posting.bytes > core::Bytes(0)) {
    copy_bytes(group_->host().at(posting.from), parcel_.receive.data, posting.bytes);
  }
  mine.taken.store(parcel_.sequence + 1, std::memory_order_release);
  group_->ring(parcel_.peer);
  phase_ = MessagePhase::kFinished;
  return true;
}

}  // namespace fm::comm
