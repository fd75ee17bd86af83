// A communicator whose verbs are events of a trace.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace fm::comm {

// Every verb is one event named after it, with the bytes of its whole buffer (the larger of the
// two), the ranks of the group and the peer or root: the wait, or, when posting does all the work,
// the posting. A posting that leaves something to wait for is an event "post". Groups split off
// are traced too. `inner` outlives it.
std::unique_ptr<Communicator> traced(Communicator& inner);

}  // namespace fm::comm
