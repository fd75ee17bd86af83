// How ranks that know nothing of each other but where rank 0 is come to know each other: a star.
//
// Every rank connects to rank 0, says who it is, and is welcomed. When all have come, rank 0 gives
// everybody the roster and the token of this job, with which they build their mesh.
// The connections stay open: the watch goes on with them (comm/meet/watch.h), so that from the
// welcome on a rank that ends is noticed at once.
//
// There is no secret between ranks started by hand, so rank 0 compares what all ranks of a job
// share (Introduction::job). A rank of another job is refused and says so; this job goes on
// waiting. Two ranks of one number, or of two sizes of the world, cannot become a world: all end at
// once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/meet/frames.h"
#include "comm/waiting.h"

namespace fm::comm {

struct Meeting {
  Attendance attendance = {};
  std::vector<Socket> lines = {};  // rank 0: by world rank, closed at 0; others: [0], to rank 0
  int refused = 0;                 // strangers at rank 0
};

Roster roster_of(const Attendance& attendance);

// Takes a line for stderr.
using Say = std::function<void(const std::string& line)>;

struct LobbyOptions {
  Introduction own;   // world_rank 0
  std::string place;  // where ranks look for this one, for messages
  Say say;            // told once that a rank of another job was refused
};

// Rank 0: waits at `listener` until all ranks have come. Throws MachineError: 14 naming who is
// missing or who cannot be together, 20 naming a rank that came and ended. The others hear it too.
Meeting host_meeting(const LobbyOptions& options, const Socket& listener, const Deadline& deadline);

// Where rank 0 listens now; may change until it is reached.
using Places = std::function<std::vector<Endpoint>()>;

// The others. Throws MachineError: 14 when rank 0 cannot be reached, refuses this rank, or the
// limit passes; 20 when rank 0 ends, and what rank 0 found.
Meeting join_meeting(const Introduction& own, const Places& places, const Deadline& deadline);

// Where rank 0 leaves its address when a launcher brings a store along.
class MeetingStore {
 public:
  virtual ~MeetingStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value, as soon as somebody set it; nothing when the deadline passed first.
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
std::unique_ptr<MeetingStore> open_torch_store(const StoreOptions& options);

// Where the ranks of a job look for rank 0.

// Ranks started by hand: rank 0 listens on MASTER_PORT of MASTER_ADDR and of no other address.
// Where MASTER_ADDR is none of this host (that of a service in front of it) it listens on all, and
// says so.
Meeting meet_at(const Endpoint& master, const Introduction& own, const Say& say,
                const Deadline& deadline);

// Where torchrun's agent has a store, rank 0 listens on any port of its own address, and leaves a
// line there that says which: key "rank0".
Meeting meet_by(MeetingStore& store, const Introduction& own, const Say& say,
                const Deadline& deadline);

// Throws MachineError (14) when `peer` is on another host and has an address of the loopback
// device.
void check_reachable(const Introduction& own, const Introduction& peer);

// How ranks that have met become a full mesh of sockets: every rank listens where the roster says;
// of two ranks the higher one connects. The listeners close when everybody has come.
struct Mesh {
  std::vector<Socket> data;  // by world rank, closed at the own place
  int refused = 0;           // strangers at the door
};

// `listener` is behind the own endpoint of the roster. Throws MachineError (14) naming the ranks
// that did not come.
Mesh build_mesh(int world_rank, const Attendance& attendance, const Socket& listener,
                const Deadline& deadline);

}  // namespace fm::comm
