// Posted verbs between ranks that share memory, and what a rank does in them.
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

// What a rank does in a collective once it can read every member's contribution: plain loops over
// memory.
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

// Reads all of `rows`; all_gather, reduce_scatter, all_to_all, broadcast: writes `receive`.
// all_reduce of small values: likewise.
void shm_work(const ShmWork& work);

// all_reduce in one pass: the sum of this rank's part is written into every member's row.
void shm_all_reduce_in_place(const ShmWork& work);

// Posted verbs between ranks that share memory. An operation announces where its contribution lies,
// waits until its peers have announced theirs, reads them where they lie, and says so.
struct ShmCall {
  // Instead of the verb's own work; contributions may differ in length then.
  using Work = std::function<void(std::span<std::byte* const> rows)>;

  Verb verb = Verb::kBarrier;
  ConstSpan send = {};  // all_reduce, broadcast: the values
  Span receive = {};    // all_reduce, broadcast: the values
  int root = 0;
  SumVisitor* visitor = nullptr;  // reduce_scatter
  Work work = nullptr;
  core::Bytes longest = core::Bytes(0);  // with `work`: the longest contribution, alike everywhere

  // What all members must agree about.
  core::Bytes bytes() const { return work == nullptr ? send.bytes() : longest; }
};

// Memory of one process, copied to where peers can read it. Empty when that was not needed.
class ShmStaging {
 public:
  explicit ShmStaging(ShmHost& host) : host_(host) {}
  ~ShmStaging();
  ShmStaging(const ShmStaging&) = delete;
  ShmStaging& operator=(const ShmStaging&) = delete;

  // A place that peers understand; `values` are copied first when they are private.
  Place publish(const ConstSpan& values);
  const void* data() const { return data_; }

 private:
  ShmHost& host_;
  void* data_ = nullptr;
  core::Bytes bytes_;
};

// One collective of a group. Operations of a group are worked on in the order they were posted.
class ShmCollective final : public Posted {
 public:
  ShmCollective(std::shared_ptr<Progress> progress, std::shared_ptr<ShmGroup> group,
                std::uint64_t sequence, ShmCall call);

  bool advance() override;
  bool finished() const override { return phase_ == Phase::kFinished; }
  std::optional<Message> missing() const override;

 private:
  enum class Phase : std::uint8_t { kQueued, kPosted, kWorked, kFinished };

  bool inlined() const;
  Message message(int member) const;
  int late_member() const;
  void post();
  std::byte* row_of(int member, Place from) const;
  void work();
  void check_member(int member) const;
  void end();

  std::shared_ptr<ShmGroup> group_;
  std::uint64_t sequence_;
  ShmCall call_;
  ShmStaging staging_;
  Phase phase_ = Phase::kQueued;
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
  bool finished() const override { return phase_ == Phase::kFinished; }
  std::optional<Message> missing() const override { return message(); }

 private:
  enum class Phase : std::uint8_t { kQueued, kPosted, kFinished };

  bool advance_send();
  bool advance_receive();
  Message message() const;

  std::shared_ptr<ShmGroup> group_;
  ShmParcel parcel_;
  ShmStaging staging_;
  Phase phase_ = Phase::kQueued;
};

}  // namespace fm::comm
