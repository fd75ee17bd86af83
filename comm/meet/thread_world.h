// Ranks as threads of one process, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/communicator.h"

namespace fm::comm {

enum class Between : std::uint8_t { kMessages, kSharedMemory };

// Runs `body` once per rank. Rethrows the first failure after aborting the others' waits;
// fails when a wait takes longer than `timeout_ms`.
void run_ranks(int size, const std::function<void(Communicator&)>& body, int timeout_ms = 10'000,
               Between between = Between::kMessages);

// The same with shared memory between the ranks of a host, and messages between hosts. host_of: by
// rank, any numbers.
void run_ranks_on_hosts(const std::vector<int>& host_of,
                        const std::function<void(Communicator&)>& body, int timeout_ms = 10'000);

}  // namespace fm::comm
