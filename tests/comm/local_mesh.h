// Several ranks of a socket mesh inside one test process: they meet at a port of 127.0.0.1, one
// thread per rank.
#pragma once

#include <functional>
#include <string>

#include "comm/communicator.h"
#include "comm/meet/rendezvous.h"
#include "tests/comm/clock.h"

namespace fm::comm {

// What a rank says of itself; its endpoint is not listened at.
PeerInfo rank_of(int world_rank, int world_size, const std::string& job = "job");

struct LocalMesh {
  Roster roster;
  std::vector<Socket> data;   // by world rank, closed at the own place
  std::vector<Socket> watch;  // rank 0: by world rank; others: [0] only
};

// Builds the mesh of `ranks` over 127.0.0.1 and runs `body` on one thread per rank; rethrows the
// failure of the lowest rank that failed.
void run_with_mesh(int ranks, const std::function<void(int rank, LocalMesh mesh)>& body);

// The same, with a tcp communicator per rank.
void run_tcp_ranks(int ranks, const std::function<void(Communicator&)>& body,
                   int timeout_ms = kWatchdogMs);

}  // namespace fm::comm
