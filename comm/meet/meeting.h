// How ranks that know nothing of each other but where rank 0 is come to know each other: a star.
//
// Every rank connects to rank 0, says who it is, and is welcomed. When all have come, rank 0 gives
// everybody the roster and the token of this job, with which they build their mesh
// (comm/meet/tcp_mesh.h). The connections stay open: the watch goes on with them
// (comm/meet/watch.h), so that from the welcome on a rank that ends is noticed at once.
//
// There is no secret between ranks started by hand, so rank 0 compares what all ranks of a job
// share (Introduction::job). A rank of another job is refused and says so; this job goes on
// waiting. Two ranks of one number, or of two sizes of the world, cannot become a world: all end at
// once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/meet/frames.h"

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

}  // namespace fm::comm
