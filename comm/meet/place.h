// Where the ranks of a job look for rank 0.
#pragma once

#include <string>

#include "comm/meet/meeting.h"
#include "comm/meet/store.h"

namespace fm::comm {

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

}  // namespace fm::comm
