// The processes of a world, for messages and addresses, and the report of a lost one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fm::comm {

struct Member {
  int world_rank = 0;
  std::string host;
  std::int64_t pid = 0;
};

using Roster = std::vector<Member>;  // by world rank

Member this_process(int world_rank);
std::string name_of(const Member& member);  // "rank 1 (host node7, pid 4711)"

// The watch's report of a lost rank.
struct PeerLoss {
  int world_rank = 0;       // the lost rank
  int exit_code = 20;       // for this process to return: the lost rank's own code, or 20
  std::string message;      // one complete line for stderr, without the newline
  std::string reason = {};  // what the rank said as it stopped; "": it said nothing
};

// Called once, on the thread of the watch. This process must end like the lost rank; usually the
// call does not return.
using OnPeerLost = std::function<void(const PeerLoss&)>;

}  // namespace fm::comm
