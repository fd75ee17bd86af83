#include "tests/comm/local_mesh.h"

#include <exception>
#include <thread>
#include <utility>

#include "comm/meet/rendezvous.h"
#include "comm/verbs/peer_communicator.h"
#include "comm/wire/fabrics.h"

namespace fm::comm {

PeerInfo rank_of(int world_rank, int world_size, const std::string& job) {
  return {.member = this_process(world_rank),
          .world_size = world_size,
          .endpoint = {"127.0.0.1", 1},
          .job = job};
}

void run_with_mesh(int ranks, const std::function<void(int rank, LocalMesh mesh)>& body) {
  const Socket rank0 = listen_on("127.0.0.1");
  const Endpoint place{"127.0.0.1", port_of(rank0)};
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  const auto build = [&](int rank) {
    const Deadline deadline(kWatchdogMs);
    const Socket listener = listen_on("127.0.0.1");
    PeerInfo own = rank_of(rank, ranks);
    own.endpoint.port = port_of(listener);
    Rendezvous rendezvous =
        rank == 0 ? serve_rendezvous({.own = own, .address = "here", .warn = {}}, rank0, deadline)
                  : join_rendezvous(
                        own, [&] { return std::vector{place}; }, deadline);
    Mesh mesh = build_mesh(rank, rendezvous.job_roster, listener, deadline);
    return LocalMesh{.roster = roster_of(rendezvous.job_roster),
                     .data = std::move(mesh.data),
                     .watch = std::move(rendezvous.connections)};
  };
  const auto run_one = [&](int rank) {
    try {
      body(rank, build(rank));
    } catch (...) {
      failures[static_cast<std::size_t>(rank)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_one, rank);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

void run_tcp_ranks(int ranks, const std::function<void(Communicator&)>& body, int timeout_ms) {
  run_with_mesh(ranks, [&](int rank, LocalMesh mesh) {
    Group world;
    world.rank = rank;
    for (int member = 0; member < ranks; ++member) world.world_ranks.push_back(member);
    auto fabric = make_background_fabric(make_tcp_fabric(
        {.world_rank = rank, .roster = mesh.roster, .verdict_ms = 50}, std::move(mesh.data)));
    PeerCommunicator communicator(std::make_shared<Progress>(std::move(fabric), timeout_ms),
                                  std::move(world));
    body(communicator);
  });
}

}  // namespace fm::comm
