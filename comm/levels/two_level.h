// The eight verbs between ranks of several hosts: shared memory within a host, messages between
// hosts, and the bits of every other backend.
//
// A host adds what the one tree of sums (core/tree.h) lets it add alone, and sends those nodes; who
// needs a sum adds the nodes along the rest of the tree. Ranks of a host that are neighbours in
// the group, 2^k of them from a multiple of 2^k on, are one node; others are a few, and ranks dealt
// out in turn are one each, which costs what messages alone would cost.
// Every rank sends and receives the part of its own place, so all of a host's network cards work.
//
// h hosts, n nodes per host, N bytes of payload; what a rank sends to other hosts, and receives:
//   all_gather      (h-1) x N
//   reduce_scatter  (h-1) x n x N
//   all_reduce      (h-1) x (n+1) / p x N; small values (h-1) x n x N, in one phase
//   all_to_all      N per rank of another host
//   broadcast       (h-1) / (ranks of the root's host) x N, sent by its ranks only
//   send, receive   N, when the peer is on another host
#pragma once

#include <memory>
#include <string>

#include "comm/verbs/peer_communicator.h"

namespace fm::comm {

struct HostOptions {
  std::string label = {};  // ranks with different ones count as of several hosts
  int cpus = 0;            // that the ranks of this host may use; 0: all that are online
};

// Collective: finds out which ranks share a host. Where none does, or they cannot share memory:
// `wire` itself, which says why in describe().
std::unique_ptr<Communicator> share_memory(std::unique_ptr<PeerCommunicator> wire,
                                           const HostOptions& options);

}  // namespace fm::comm
