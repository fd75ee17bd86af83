// Two messages at once.
#pragma once

#include "comm/communicator.h"

namespace fm::comm {

// A message to one rank and one from another.
struct Exchange {
  Pending sent, received;
};
// Posts both. Who sends to a higher rank posts that first: pairs and rings of ranks get on even
// where a post blocks until its peer has posted (CUDA_LAUNCH_BLOCKING).
Exchange exchange(Communicator& group, ConstSpan send, int to, Span receive, int from);

}  // namespace fm::comm
