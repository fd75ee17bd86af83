// Rendezvous: ranks that know only the address of rank 0 learn each other's addresses. A star.
//
// Every rank connects to rank 0, sends a hello that describes it, and receives a welcome. When all
// have joined, rank 0 sends everybody the roster and the token of this job, with which they build
// their mesh. The connections stay open: the watch takes them over (comm/meet/watch.h), so from the
// welcome on the end of a rank is noticed at once.
//
// Where the job has a token, every connection begins with a proof of it (comm/meet/job_secret.h).
// Rank 0 also compares the name of the job that every rank sends (PeerInfo::job). A rank of another
// job is refused and reports it; this job keeps waiting. Two ranks with one RANK, or with different
// WORLD_SIZEs, cannot form a world: all end at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/meet/frames.h"
#include "comm/meet/job_secret.h"
#include "comm/waiting.h"
#include "comm/wire/addresses.h"

namespace fm::comm {

struct Rendezvous {
  JobRoster job_roster = {};
  // Rank 0: by world rank, closed at 0; the others: [0], to rank 0.
  std::vector<Socket> connections = {};
  int refused = 0;  // connections of unknown peers at rank 0
};

Roster roster_of(const JobRoster& job_roster);

// How this rank meets the others.
struct MeetOptions {
  Names names = {};                    // its warnings are printed on stderr
  const JobSecret* secret = nullptr;   // of a job that has a token
  std::string interface_address = {};  // of --interface, or ""
};

struct ServerOptions {
  PeerInfo own;         // world_rank 0
  std::string address;  // at which the other ranks look for this one, for messages
  Warn warn;            // called once, when a rank of another job or token was refused
  const JobSecret* secret = nullptr;
};

// Rank 0: waits at `listener` until all ranks have joined. Throws MachineError: 14 naming the ranks
// that are missing or contradict each other, 20 naming a rank that joined and ended. The other
// ranks throw the same.
Rendezvous serve_rendezvous(const ServerOptions& options, const Socket& listener,
                            const Deadline& deadline);

// The endpoints at which rank 0 listens now; called before every attempt, because they may change.
using FindEndpoints = std::function<std::vector<Endpoint>()>;

// The ranks above 0. Throws MachineError: 14 when rank 0 cannot be reached, refuses this rank, or
// the limit passes; 20 when rank 0 ends; and every error that rank 0 sends.
Rendezvous join_rendezvous(const PeerInfo& own, const FindEndpoints& find, const Deadline& deadline,
                           const MeetOptions& options = {});

// The store in which rank 0 publishes its address, where the launcher provides one.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value, as soon as a rank has set it; nothing when the deadline passed first.
  virtual std::optional<std::string> find(const std::string& key, const Deadline& deadline) = 0;
};

struct StoreOptions {
  std::string host;
  int port = 0;
  std::string prefix;  // of every key
  int timeout_ms = 0;  // limit for reaching the server; c10d may take longer
};

// A client of the c10d TCPStore that torchrun's agent serves. Throws MachineError (14) when the
// server cannot be reached.
std::unique_ptr<RendezvousStore> open_torch_store(const StoreOptions& options);

// Ranks that are started by hand: rank 0 listens on MASTER_PORT of MASTER_ADDR and of no other
// address. Where MASTER_ADDR is no address of this host (but that of a service in front of it),
// rank 0 listens on that of the interface, else on all addresses, and warns.
Rendezvous rendezvous_at(const Endpoint& master, const PeerInfo& own, const MeetOptions& options,
                         const Deadline& deadline);

// Where torchrun's agent provides a store, rank 0 listens on any port of its own address and sets
// the key "rank0" of the store to its line of the roster.
Rendezvous rendezvous_by_store(RendezvousStore& store, const PeerInfo& own,
                               const MeetOptions& options, const Deadline& deadline);

// Throws MachineError (14) when `peer` runs on another host and has an address of the loopback
// device.
void check_reachable(const PeerInfo& own, const PeerInfo& peer);

// A full mesh of sockets between the ranks of a roster: every rank listens at its endpoint; of two
// ranks the higher one connects. The listeners close when all connections exist.
struct Mesh {
  std::vector<Socket> data;  // by world rank, closed at the own rank
  int refused = 0;           // connections of unknown peers
};

// `listener` listens at this rank's endpoint of the roster. Throws MachineError (14) naming the
// ranks that did not connect.
Mesh build_mesh(int world_rank, const JobRoster& job_roster, const Socket& listener,
                const Deadline& deadline, const JobSecret* secret = nullptr);

}  // namespace fm::comm
