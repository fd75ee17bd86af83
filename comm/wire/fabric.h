// Point-to-point messages of one rank: the interface that a backend implements. The eight verbs are
// written once on top of it (comm/verbs/peer_communicator.h), so every backend sums in the same
// order.
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

// The address of a message: both ends build the same one, apart from `peer`.
struct Message {
  std::uint64_t group = 0;     // communicator
  std::uint64_t sequence = 0;  // collectives: counted per group; messages: counted per direction
  int peer = 0;                // world rank of the other end
  Verb verb = Verb::kMessage;
  std::uint8_t phase = 0;  // all_reduce has two
  core::DType dtype = core::DType::kU8;
  core::Bytes bytes = core::Bytes(0);
};

// True when a send with address `a` and a receive with address `b` belong together. Verb,
// type and bytes must then be equal; when they are not, the ranks disagree about the program.
bool same_slot(const Message& a, const Message& b);
// Two ranks that execute different operations at the same point of the program.
struct Disagreement {
  std::uint64_t sequence = 0;
  std::string here;
  std::string there;
  std::string peer_name;
};
// Throws MachineError (22) naming both sides' values.
[[noreturn]] void throw_disagreement(const Disagreement& about);
// Calls throw_disagreement unless verb, type and bytes agree.
void check_agreement(const Message& here, const Message& there, const std::string& peer_name);

// One posted message. Destroying it before it is done withdraws it, which may happen only after an
// error: threads and tcp never touch its memory afterwards. MPI cannot cancel a message that has
// begun and may use its memory in any later call, so MPI must not be called after such an error.
class Transfer {
 public:
  explicit Transfer(const Message& message) : message_(message) {}
  virtual ~Transfer() = default;
  virtual bool done() const = 0;
  const Message& message() const { return message_; }

 private:
  Message message_;
};

// Invariant: a send and a receive with the same slot match, in whatever order they were posted.
// Thread:    one thread per rank.
// Lifetime:  outlives its transfers.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::unique_ptr<Transfer> send(const void* data, const Message& message) = 0;
  virtual std::unique_ptr<Transfer> receive(void* data, const Message& message) = 0;
  // Advances every posted message; sleeps at most `limit_ms` while nothing moves.
  virtual void progress(int limit_ms) = 0;
  // Advances every posted message and returns at once; never throws for a lost peer. See
  // make_background_fabric in comm/wire/fabrics.h.
  virtual void advance() {}
  // Called by all members of a new group, in its rank order, before its first message.
  virtual void open_group(std::uint64_t group, std::span<const int> world_ranks) = 0;
  // Called once a second about a message that does not arrive: throws MachineError (22) when the
  // peer is found in another operation. For backends that cannot detect it at once.
  virtual void look_into(const Message& /*missing*/) {}
  virtual std::string name() const = 0;                     // "tcp"
  virtual std::string peer_name(int world_rank) const = 0;  // "rank 1 (host a, pid 4711)"
};

}  // namespace fm::comm
