#include "comm/exchange.h"

namespace fm::comm {

Exchange exchange(Communicator& group, ConstSpan send, int to, Span receive, int from) {
  Exchange both;
  const bool sends_first = group.rank() < to;
  if (sends_first) both.sent = group.send(send, to);
  both.received = group.receive(receive, from);
  if (!sends_first) both.sent = group.send(send, to);
  return both;
}

}  // namespace fm::comm
