// Who is who: the processes of a world, for messages and addresses, and which of them was lost.
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

// What the watch reports when another rank ended before its time.
struct PeerLoss {
  int world_rank = 0;   // which one
  int exit_code = 20;   // that this process should return: the other's own code, or 20
  std::string message;  // one complete line for stderr, without its end
};

// Called once, on the watch's own thread. This process must follow the lost rank; usually the
// call does not return.
using OnPeerLost = std::function<void(const PeerLoss&)>;

}  // namespace fm::comm
