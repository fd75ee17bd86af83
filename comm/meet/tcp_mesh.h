// How ranks that have met become a full mesh of sockets: every rank listens where the roster says;
// of two ranks the higher one connects. The listeners close when everybody has come.
#pragma once

#include <vector>

#include "comm/meet/meeting.h"

namespace fm::comm {

struct Mesh {
  std::vector<Socket> data;  // by world rank, closed at the own place
  int refused = 0;           // strangers at the door
};

// `listener` is behind the own endpoint of the roster. Throws MachineError (14) naming the ranks
// that did not come.
Mesh build_mesh(int world_rank, const Attendance& attendance, const Socket& listener,
                const Deadline& deadline);

}  // namespace fm::comm
