#include "comm/meet/rendezvous.h"

#include <string>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr const char* kKey = "rank0";

std::string text_of(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.address.find(':') != std::string::npos;
  return ipv6 ? core::concat("[", endpoint.address, "]:", endpoint.port)
              : core::concat(endpoint.address, ":", endpoint.port);
}

}  // namespace

Rendezvous rendezvous_at(const Endpoint& master, const PeerInfo& own, const Warn& warn,
                         const Deadline& deadline) {
  if (own.member.world_rank > 0) {
    return join_rendezvous(
        own, [&] { return endpoints_of(master.address, master.port); }, deadline);
  }
  const Listener listener = listen_at(master.address, master.port, deadline);
  if (listener.everywhere && warn) {
    warn(
        core::concat("fmengine: MASTER_ADDR is no address of this host; rank 0 waits on all of "
                     "them (MASTER_ADDR=",
                     master.address, ")"));
  }
  const std::string address =
      core::concat(text_of({listener.address, master.port}),
                   is_loopback(listener.address) ? ", where only this host reaches it" : "");
  return serve_rendezvous({.own = own, .address = address, .warn = warn}, listener.socket,
                          deadline);
}

Rendezvous rendezvous_by_store(RendezvousStore& store, const PeerInfo& own, const Warn& warn,
                               const Deadline& deadline) {
  if (own.member.world_rank == 0) {
    const Socket listener = listen_on(own.endpoint.address);
    PeerInfo here = own;
    here.job.clear();
    here.endpoint.port = port_of(listener);
    store.set(kKey, text_of(here));
    return serve_rendezvous({.own = own, .address = text_of(here.endpoint), .warn = warn}, listener,
                            deadline);
  }
  // Read before every attempt: the store may still hold the rank 0 of ranks that the agent ended.
  const auto rank0 = [&] {
    const auto text = store.find(kKey, deadline);
    FM_MACHINE_CHECK(text.has_value(), ExitCode::kRendezvousFailed,
                     "all ranks must meet within the limit; look at the output of rank 0, which "
                     "did not say where it is (rank ",
                     own.member.world_rank, " of ", own.world_size, " waited ", deadline.limit_ms(),
                     " ms)");
    const auto published = peer_info_of(*text);
    FM_MACHINE_CHECK(published.has_value(), ExitCode::kRendezvousFailed,
                     "rank 0 must leave its address in the store; start all ranks with the same "
                     "build (found ",
                     printable(*text), ")");
    check_reachable(own, *published);
    return std::vector{published->endpoint};
  };
  return join_rendezvous(own, rank0, deadline);
}

void check_reachable(const PeerInfo& own, const PeerInfo& peer) {
  FM_MACHINE_CHECK(own.member.host == peer.member.host || !is_loopback(peer.endpoint.address),
                   ExitCode::kRendezvousFailed,
                   "MASTER_ADDR must be an address that every host can reach; name an address of "
                   "the network, not of the loopback device (",
                   name_of(peer.member), " listens on ", peer.endpoint.address, ", seen from ",
                   name_of(own.member), ")");
}

Mesh build_mesh(int world_rank, const JobRoster& job_roster, const Socket& listener,
                const Deadline& deadline) {
  const auto own = static_cast<std::size_t>(world_rank);
  const std::vector<PeerInfo>& ranks = job_roster.ranks;
  const Hello hello{.token = job_roster.token, .world_rank = world_rank, .purpose = Purpose::kData};
  Mesh mesh;
  mesh.data.resize(ranks.size());
  for (std::size_t rank = 0; rank < own; ++rank) {
    check_reachable(ranks[own], ranks[rank]);
    mesh.data[rank] = dial({ranks[rank].endpoint}, hello, name_of(ranks[rank].member), deadline);
  }
  std::set<PeerKey> expected;
  for (std::size_t rank = own + 1; rank < ranks.size(); ++rank) {
    expected.insert({Purpose::kData, static_cast<int>(rank)});
  }
  Arrivals arrivals = accept_all(listener, job_roster.token, expected, deadline);
  std::vector<std::string> missing;
  for (const PeerKey& key : expected) {
    const auto rank = static_cast<std::size_t>(key.second);
    if (arrivals.sockets.contains(key)) {
      mesh.data[rank] = std::move(arrivals.sockets.at(key));
    } else {
      missing.push_back(name_of(ranks[rank].member));
    }
  }
  FM_MACHINE_CHECK(missing.empty(), ExitCode::kRendezvousFailed,
                   "every rank must reach the others by TCP; check firewalls between the hosts (",
                   name_of(ranks[own].member), " at ", ranks[own].endpoint.address, " port ",
                   ranks[own].endpoint.port, " waited ", deadline.limit_ms(), " ms for ",
                   core::join(missing, ", "), ")");
  mesh.refused = arrivals.refused;
  return mesh;
}

}  // namespace fm::comm
