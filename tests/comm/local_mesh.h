// Several ranks of a socket mesh inside one test process: a store in memory, one thread per rank.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/tcp_mesh.h"

namespace fm::comm {

std::shared_ptr<MeetingStore> make_memory_store();

// Builds the mesh of `ranks` over 127.0.0.1 and runs `body` on one thread per rank; rethrows the
// failure of the lowest rank that failed.
void run_with_mesh(int ranks, const std::function<void(int rank, Mesh mesh)>& body);

// The same, with a tcp communicator per rank.
void run_tcp_ranks(int ranks, const std::function<void(Communicator&)>& body,
                   int timeout_ms = 10'000);

}  // namespace fm::comm
