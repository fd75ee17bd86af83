#include "comm/fabric.h"

#include "core/check.h"

namespace fm::comm {

std::string_view name_of(Verb verb) {
  switch (verb) {
    case Verb::kAllGather: return "all_gather";
    case Verb::kReduceScatter: return "reduce_scatter";
    case Verb::kAllReduce: return "all_reduce";
    case Verb::kAllToAll: return "all_to_all";
    case Verb::kBroadcast: return "broadcast";
    case Verb::kMessage: return "send/receive";
    case Verb::kBarrier: return "barrier";
    case Verb::kSplit: return "split";
  }
  return "?";
}

bool same_slot(const Message& a, const Message& b) {
  const bool same_kind = (a.verb == Verb::kMessage) == (b.verb == Verb::kMessage);
  return a.group == b.group && a.sequence == b.sequence && a.phase == b.phase && same_kind;
}

void check_agreement(const Message& here, const Message& there, const std::string& peer_name) {
  FM_MACHINE_CHECK(here.verb == there.verb && here.bytes == there.bytes, core::ExitCode::kMismatch,
                   "all ranks must post the same operations in the same order; start every rank "
                   "with the same program, flags and files (operation ",
                   here.sequence, " is ", name_of(here.verb), " of ", here.bytes.count(),
                   " bytes here, ", name_of(there.verb), " of ", there.bytes.count(), " bytes at ",
                   peer_name, ")");
}

}  // namespace fm::comm
