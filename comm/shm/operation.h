// Posted verbs between ranks that share memory, and the computation of a rank in them.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

#include "comm/communicator.h"
#include "comm/shm/group.h"
#include "comm/verbs/progress.h"
#include "comm/wire/fabric.h"

namespace fm::comm {

inline void copy_bytes(const void* from, void* to, core::Bytes bytes) {
  if (from == to || bytes == core::Bytes(0)) return;
  std::memcpy(to, from, static_cast<std::size_t>(bytes.count()));
}

struct ShmWork {
  Verb verb = Verb::kBarrier;
  int rank = 0;
  int root = 0;
  ConstSpan own;  // this rank's contribution
  Span receive;
  std::span<std::byte* const> rows;  // every member's contribution, in rank order (broadcast: the
                                     // root's, null for others)
  SumVisitor* visitor = nullptr;     // reduce_scatter
};

// The work of a rank in a collective as soon as it can read every member's contribution: reads all
// of `rows` and writes `receive`. For all_gather, reduce_scatter, all_to_all, broadcast, and
// all_reduce of small values.
void shm_work(const ShmWork& work);

// all_reduce in one pass: writes the sum of this rank's part into every member's row.
void shm_all_reduce_in_place(const ShmWork& work);

// The arguments of a posted verb. An operation announces the address of its contribution, waits
// until its peers have announced theirs, reads them in place, and announces that it has read them.
struct ShmCall {
  // Replaces the verb's own work; contributions may then differ in length.
  using Work = std::function<void(std::span<std::byte* const> rows)>;

  Verb verb = Verb::kBarrier;
  ConstSpan send = {};  // all_reduce, broadcast: the values
  Span receive = {};    // all_reduce, broadcast: the values
  int root = 0;
  SumVisitor* visitor = nullptr;  // reduce_scatter
  Work work = nullptr;
  // With `work`: the longest contribution, the same value on every member.
  core::Bytes longest = core::Bytes(0);

  // The size that all members must agree on.
  core::Bytes bytes() const { return work == nullptr ? send.bytes() : longest; }
};

// A copy of private memory that peers can read. Empty where no copy was needed.
class ShmStaging {
 public:
  explicit ShmStaging(ShmHost& host) : host_(host) {}
  ~ShmStaging();
  ShmStaging(const ShmStaging&) = delete;
  ShmStaging& operator=(const ShmStaging&) = delete;

  // The address of `values` for peers; private values are copied first.
  SharedAddress publish(const ConstSpan& values);
  const void* data() const { return data_; }

 private:
  ShmHost& host_;
  void* data_ = nullptr;
  core::Bytes bytes_;
};

// One collective of a group. The operations of a group are executed in posting order.
class ShmCollective final : public Posted {
 public:
  ShmCollective(std::shared_ptr<Progress> progress, std::shared_ptr<ShmGroup> group,
                std::uint64_t sequence, ShmCall call);

  bool advance() override;
  bool finished() const override { return phase_ == CollectivePhase::kFinished; }
  std::optional<Message> missing() const override;

 private:
  enum class CollectivePhase : std::uint8_t { kQueued, kPosted, kWorked, kFinished };

  bool inlined() const;
  Message message(int member) const;
  int late_member() const;
  void post();
  std::byte* row_of(int member, SharedAddress from) const;
  void work();
  void check_member(int member) const;
  void end();

  std::shared_ptr<ShmGroup> group_;
  std::uint64_t sequence_;
  ShmCall call_;
  ShmStaging staging_;
  CollectivePhase phase_ = CollectivePhase::kQueued;
};

// One message to, or from, a peer of the group.
struct ShmParcel {
  enum class Way : std::uint8_t { kSend, kReceive };
  Way way = Way::kSend;
  int peer = 0;
  std::uint64_t sequence = 0;  // of this direction
  ConstSpan send = {};
  Span receive = {};
};

class ShmMessage final : public Posted {
 public:
  ShmMessage(std::shared_ptr<Progress> progress, std::shared_ptr<ShmGroup> group,
             const ShmParcel& parcel);

  bool advance() override;
  bool finished() const override { return phase_ == MessagePhase::kFinished; }
  std::optional<Message> missing() const override { return message(); }

 private:
  enum class MessagePhase : std::uint8_t { kQueued, kPosted, kFinished };

  bool advance_send();
  bool advance_receive();
  Message message() const;

  std::shared_ptr<ShmGroup> group_;
  ShmParcel parcel_;
  ShmStaging staging_;
  MessagePhase phase_ = MessagePhase::kQueued;
};

}  // namespace fm::comm
