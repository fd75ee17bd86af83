// How ranks that share only a store become a full mesh of sockets.
//
// Keys in the store:  token = 32 hex digits, by rank 0
//                     member/<rank> = "host pid address port"
// Every rank listens on a free port; of two ranks the higher one connects. The listeners close
// when everybody has come.
#pragma once

#include <vector>

#include "comm/handshake.h"
#include "comm/meeting_store.h"
#include "comm/roster.h"

namespace fm::comm {

struct MeshOptions {
  int world_rank = 0;
  int world_size = 1;
  std::string address;  // own address that the peers can reach
  int rendezvous_ms = 120'000;
};

struct Mesh {
  Roster roster;
  std::vector<Socket> data;   // by world rank, closed at the own place
  std::vector<Socket> watch;  // rank 0: by world rank; others: [0] only
  int refused = 0;            // strangers at the door
};

// Throws MachineError (14) naming the ranks that did not come.
Mesh build_mesh(MeetingStore& store, const MeshOptions& options);

}  // namespace fm::comm
