#include "comm/wire/fabric.h"

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

void throw_disagreement(const Disagreement& about) {
  throw core::MachineError(
      core::ExitCode::kMismatch,
      core::concat("all ranks must post the same operations in the same order; start every rank "
                   "with the same program, flags and files (operation ",
                   about.sequence, " is ", about.here, " here, ", about.there, " at ",
                   about.peer_name, ")"));
}

void check_agreement(const Message& here, const Message& there, const std::string& peer_name) {
  const bool same_type = here.dtype == there.dtype;
  if (here.verb == there.verb && here.bytes == there.bytes && same_type) return;
  const auto words = [same_type](const Message& message) {
    const std::string size =
        core::concat(name_of(message.verb), " of ", message.bytes.count(), " bytes");
    return same_type ? size : core::concat(size, " of ", name_of(message.dtype));
  };
  throw_disagreement({here.sequence, words(here), words(there), peer_name});
}

}  // namespace fm::comm
