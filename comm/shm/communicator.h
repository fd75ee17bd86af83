// The eight verbs between ranks of one host: contributions are read where they lie.
//
// p ranks, N bytes of payload; what a rank reads and writes when its buffers come from memory():
//   all_gather      reads and writes (p-1) x N
//   reduce_scatter  reads p x N, writes N
//   all_reduce      reads N, writes N: every rank sums its part and writes it to all, in one pass
//   all_to_all      reads and writes (p-1) x N
//   broadcast       reads and writes N
//   send, receive   the receiver copies N
// Contributions of 4,096 bytes at most travel in the words that announce them, in one round; others
// take a second round, that says that they were read. Private memory is copied first.
#pragma once

#include <memory>
#include <vector>

#include "comm/shm/host.h"
#include "comm/verbs/peer_communicator.h"

namespace fm::comm {

// Collective over `wire`, whose members all run on this host; host_ranks: theirs, in rank order.
// `wire` serves what is set up.
std::unique_ptr<Communicator> make_shm_communicator(std::unique_ptr<PeerCommunicator> wire,
                                                    std::shared_ptr<ShmHost> host,
                                                    std::vector<int> host_ranks);

}  // namespace fm::comm
