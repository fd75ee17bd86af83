// Ranks that each compute on a card of their own and talk by NVIDIA's NCCL, which is opened late.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/waiting.h"
#include "core/check.h"
#include "core/device.h"
#include "core/ledger.h"
#include "core/shard_plan.h"

namespace fm::comm {

struct NcclLibrary;

// A function of libnccl.so.2 by its name; null: it has none.
using FindFunction = std::function<void*(const char* name)>;

// Throws UserError (10) where a function is missing or the library is too old. Sets variables of
// NCCL's for this process: NVLS is off, unless NCCL_NVLS_ENABLE is set, since its sums on Hopper do
// not repeat; ranks connect at the start (NCCL_RUNTIME_CONNECT, unless it is set); no call blocks.
std::shared_ptr<const NcclLibrary> open_nccl(const FindFunction& find);
std::string name_of(const NcclLibrary& library);  // "NCCL 2.28.9"

// Where canonical sums arrive from the other ranks of a group: a row of each, of one size, in about
// `memory` bytes.
struct CanonicalRows {
  static constexpr core::Bytes kMemory = core::Bytes(64 << 20);

  static constexpr CanonicalRows of(int ranks, core::Bytes memory = kMemory) {
    const int others = ranks - 1;
    if (others == 0) return {};
    constexpr std::int64_t kTogether = 64;
    const std::int64_t fit = memory.count() / (4 * others) / kTogether * kTogether;
    return {others, core::Elements(fit > kTogether ? fit : kTogether)};
  }
  core::Bytes bytes() const { return core::bytes_of(each * rows, core::DType::kF32); }

  int rows = 0;
  core::Elements each;  // of fp32
};

// What the groups of a rank have in common.
struct NcclPlace {
  std::shared_ptr<const NcclLibrary> library;
  core::Device& device;
  core::Ledger& ledger;  // charged for the memory in which canonical sums arrive
  // A queue of the device, which must be a kernels::cuda::Stream: asked once for the collectives of
  // a group, and once for every direction between two ranks in which messages travel.
  std::function<std::shared_ptr<core::Queue>()> make_queue;
  std::string self = {};               // this rank, for messages: "rank 3 (host node7, pid 4711)"
  std::string device_id = {};          // no other card's, on any host; empty: not compared
  int start_ms = 120'000;              // limit of the start of a group
  int limit_ms = 600'000;              // limit of a verb that is due
  int end_ms = 5'000;                  // limit of the library's own end of a group, which may hang
  const Clock* clock = &kSystemClock;  // of limit_ms
  // Called once, by any thread, when a group ends by an error and before it is aborted: the rank's
  // own thread may wait for its device anywhere. Usually it does not return.
  std::function<void(const core::MachineError&)> on_end = nullptr;
  // Makes the device that of the calling thread: NCCL's ends run in threads of their own.
  std::function<void()> use_device = nullptr;
  core::Bytes slice = CanonicalRows::kMemory;
};

// Between which ranks of a group messages (send, receive) may travel. Each direction between two
// ranks has a queue of its own: a message waits for none but those before it.
enum class Messages : std::uint8_t { kNone, kRing, kAll };  // kRing: each with its two neighbours

struct NcclUse {
  std::string name;  // of the group, for messages
  core::SumOrder order = core::SumOrder::kFast;
  Messages messages = Messages::kNone;
  bool exchanges = false;  // all_to_all is used; the canonical order connects all ranks anyway
};

inline constexpr int kMostCanonicalRanks = 64;  // rows that the kernel adds

// Throws UserError where so many ranks of a group cannot add in its order: for plans, too.
inline void check_canonical(const NcclUse& use, int ranks) {
  FM_USER_CHECK(use.order != core::SumOrder::kCanonical || ranks <= kMostCanonicalRanks,
                "\"communication_order\": \"canonical\" needs at most ", kMostCanonicalRanks,
                " ranks with cards in a group; use \"fast\" (group ", use.name, ", ", ranks,
                " ranks)");
}

// A group for tensors in the device's memory. `host` joins the same ranks, serves nothing else, and
// carries what NCCL does not: the start, barriers, and sums of fp64 that must be canonical.
//
// kFast: sums in NCCL's order (Sums::kRepeats). kCanonical: every rank sends its parts of fp32 to
// their owners, whose kernel adds them in the tree (Sums::kFixedTree), (n - 1)/n of the bytes per
// rank and no more; all_reduce then gathers. Groups of more than kMostCanonicalRanks refuse
// (UserError).
//
// Errors: UserError (10) where two ranks have one card. MachineError: 14 where the group does not
// start; 21 where a verb is late, which names who has not posted it if the ranks share a host's
// memory; 20 for an error of the library. After one of the last two the group is aborted, and every
// call and wait throws it again.
//
// Invariant: groups are independent of each other as far as their queues are: on one queue all
//            ranks must post in one order.
// Thread:    as Communicator; one thread of its own looks at what is posted.
// Lifetime:  library, device, ledger and clock outlive it. Its end waits for what this rank has
//            posted, and at most end_ms for its peers to leave, too.
std::unique_ptr<Communicator> nccl(std::unique_ptr<Communicator> host, const NcclPlace& place,
                                   const NcclUse& use);

}  // namespace fm::comm
