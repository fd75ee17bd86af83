// Point-to-point messages of one rank: what a backend must supply. The eight verbs are written
// once on top of it (comm/verbs/peer_communicator.h), so every backend sums in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/types.h"

namespace fm::comm {

enum class Verb : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kMessage,  // send and receive
  kBarrier,
  kSplit,  // members of a new group wait for each other
};
inline constexpr Verb kLastVerb = Verb::kSplit;
std::string_view name_of(Verb verb);

// Which message: both ends build the same address, apart from `peer`.
struct Message {
  std::uint64_t group = 0;     // communicator
  std::uint64_t sequence = 0;  // collectives: count of the group; messages: count of the direction
  int peer = 0;                // world rank of the other end
  Verb verb = Verb::kMessage;
  std::uint8_t phase = 0;  // all_reduce has two
  core::DType dtype = core::DType::kU8;
  core::Bytes bytes = core::Bytes(0);
};

// True when a send with address `a` and a receive with address `b` belong together. Verb,
// type and bytes must then be equal; when they are not, the ranks disagree about the program.
bool same_slot(const Message& a, const Message& b);
// What two ranks take one operation for.
struct Disagreement {
  std::uint64_t sequence = 0;
  std::string here;
  std::string there;
  std::string peer_name;
};
// Throws MachineError (22) naming both sides' values.
[[noreturn]] void throw_disagreement(const Disagreement& about);
// The same unless verb, type and bytes agree.
void check_agreement(const Message& here, const Message& there, const std::string& peer_name);

// One posted message. Destroying it before it is done withdraws it, which only an error may do:
// threads and tcp never touch its memory afterwards. MPI cannot take back what it has begun and may
// still use the memory whenever it is called: after such an error nobody calls MPI any more.
class Transfer {
 public:
  explicit Transfer(const Message& message) : message_(message) {}
  virtual ~Transfer() = default;
  virtual bool done() const = 0;
  const Message& message() const { return message_; }

 private:
  Message message_;
};

// Invariant: a send and a receive with the same slot meet, in whatever order they were posted.
// Thread:    one thread per rank.
// Lifetime:  outlives its transfers.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::unique_ptr<Transfer> send(const void* data, const Message& message) = 0;
  virtual std::unique_ptr<Transfer> receive(void* data, const Message& message) = 0;
  // Moves every posted message along; sleeps at most `limit_ms` while nothing moves.
  virtual void progress(int limit_ms) = 0;
  // Moves them along and returns; says nothing of lost peers. See comm/wire/fabrics.h.
  virtual void turn() {}
  // Called by all members of a new group, in its rank order, before its first message.
  virtual void open_group(std::uint64_t group, std::span<const int> world_ranks) = 0;
  // Asked once a second about a message that does not come: throws MachineError (22) when the peer
  // is seen in another operation. For backends that cannot see it when it happens.
  virtual void look_into(const Message& /*missing*/) {}
  virtual std::string name() const = 0;                     // "tcp"
  virtual std::string peer_name(int world_rank) const = 0;  // "rank 1 (host a, pid 4711)"
};

}  // namespace fm::comm
