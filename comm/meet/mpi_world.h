// The world of ranks that MPI has started (comm/wire/fabrics.h moves their messages).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/meet/job_secret.h"
#include "comm/roster.h"
#include "comm/wire/fabric.h"
#include "comm/wire/socket.h"
#include "comm/wire/watchdog.h"

namespace fm::comm {

struct MpiWorld {
  std::unique_ptr<Fabric> fabric;
  std::shared_ptr<const CallMark> calls;  // marks the fabric's calls into MPI, which have no limit
  Roster roster;
  std::vector<Socket> watch;  // rank 0: by world rank; others: [0] only
  int refused = 0;            // connections of unknown peers to the watch
};

struct JoinOptions {
  int rendezvous_ms = 120'000;         // limit of the rendezvous, MPI_Init included
  const JobSecret* secret = nullptr;   // of a job that has a token
  std::string interface_address = {};  // at which rank 0's watch listens between hosts; "": on all
  bool one_host = false;  // all ranks run on this host: no fabric is probed, no port opened
  // Called on a thread of its own with one complete line for stderr when MPI does not return. The
  // process must end: a thread that waits inside MPI cannot be interrupted.
  std::function<void(const std::string& line)> on_late;
};

// MPI_Init (SERIALIZED), once per process. Throws UserError when MPI and the launcher disagree
// about the ranks, MachineError (14) when a rank cannot reach rank 0's watch.
MpiWorld join_mpi(int world_rank, int world_size, const JoinOptions& options);

// Where rank 0's watch is reached: from its own host, and from others. Bound to an interface it is
// not on the loopback address. `of_host`: addresses of the host that others may reach.
struct WatchPlaces {
  std::string near;
  std::vector<std::string> far;
};
inline WatchPlaces watch_places(bool one_host, const std::string& interface_address,
                                std::vector<std::string> of_host) {
  if (interface_address.empty()) return {.near = "127.0.0.1", .far = std::move(of_host)};
  return {.near = one_host ? "127.0.0.1" : interface_address, .far = {interface_address}};
}

// MPI_Finalize: every rank calls it after all transfers are done, and posts no verb afterwards.
// `on_late` as in JoinOptions.
void leave_mpi(int world_rank, int limit_ms,
               const std::function<void(const std::string& line)>& on_late);

}  // namespace fm::comm
