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
inline Exchange exchange(Communicator& group, ConstSpan send, int to, Span receive, int from) {
  Exchange both;
  const bool sends_first = group.rank() < to;
  if (sends_first) both.sent = group.send(send, to);
  both.received = group.receive(receive, from);
  if (!sends_first) both.sent = group.send(send, to);
  return both;
}

}  // namespace fm::comm
