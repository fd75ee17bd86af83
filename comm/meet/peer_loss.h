// What the watch reports when another rank ended before its time.
#pragma once

#include <functional>
#include <string>

namespace fm::comm {

struct PeerLoss {
  int world_rank = 0;   // which one
  int exit_code = 20;   // that this process should return: the other's own code, or 20
  std::string message;  // one complete line for stderr, without its end
};

// Called once, on the watch's own thread. This process must follow the lost rank; usually the
// call does not return.
using OnPeerLost = std::function<void(const PeerLoss&)>;

}  // namespace fm::comm
