#include "comm/meet/place.h"

#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr const char* kKey = "rank0";

std::string text_of(const Endpoint& at) {
  const bool ipv6 = at.address.find(':') != std::string::npos;
  return ipv6 ? core::concat("[", at.address, "]:", at.port)
              : core::concat(at.address, ":", at.port);
}

}  // namespace

Meeting meet_at(const Endpoint& master, const Introduction& own, const Say& say,
                const Deadline& deadline) {
  if (own.member.world_rank > 0) {
    return join_meeting(
        own, [&] { return endpoints_of(master.address, master.port); }, deadline);
  }
  const Listener listener = listen_at(master.address, master.port, deadline);
  if (listener.everywhere && say) {
    say(
        core::concat("fmengine: MASTER_ADDR is no address of this host; rank 0 waits on all of "
                     "them (MASTER_ADDR=",
                     master.address, ")"));
  }
  const std::string place =
      core::concat(text_of({listener.address, master.port}),
                   is_loopback(listener.address) ? ", where only this host reaches it" : "");
  return host_meeting({.own = own, .place = place, .say = say}, listener.socket, deadline);
}

Meeting meet_by(MeetingStore& store, const Introduction& own, const Say& say,
                const Deadline& deadline) {
  if (own.member.world_rank == 0) {
    const Socket listener = listen_on(own.endpoint.address);
    Introduction here = own;
    here.job.clear();
    here.endpoint.port = port_of(listener);
    store.set(kKey, text_of(here));
    return host_meeting({.own = own, .place = text_of(here.endpoint), .say = say}, listener,
                        deadline);
  }
  // Asked every time: ranks that the agent ended before may have left the address of their rank 0.
  const auto rank0 = [&] {
    const auto text = store.find(kKey, deadline);
    FM_MACHINE_CHECK(text.has_value(), ExitCode::kRendezvousFailed,
                     "all ranks must meet within the limit; look at the output of rank 0, which "
                     "did not say where it is (rank ",
                     own.member.world_rank, " of ", own.world_size, " waited ", deadline.limit_ms(),
                     " ms)");
    const auto said = introduction_of(*text);
    FM_MACHINE_CHECK(said.has_value(), ExitCode::kRendezvousFailed,
                     "rank 0 must leave its address in the store; start all ranks with the same "
                     "build (found ",
                     printable(*text), ")");
    check_reachable(own, *said);
    return std::vector{said->endpoint};
  };
  return join_meeting(own, rank0, deadline);
}

void check_reachable(const Introduction& own, const Introduction& peer) {
  FM_MACHINE_CHECK(own.member.host == peer.member.host || !is_loopback(peer.endpoint.address),
                   ExitCode::kRendezvousFailed,
                   "MASTER_ADDR must be an address that every host can reach; name an address of "
                   "the network, not of the loopback device (",
                   name_of(peer.member), " listens on ", peer.endpoint.address, ", seen from ",
                   name_of(own.member), ")");
}

}  // namespace fm::comm
