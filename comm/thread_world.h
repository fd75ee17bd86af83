// Ranks as threads of one process, for tests.
#pragma once

#include <cstdint>
#include <functional>

#include "comm/communicator.h"

namespace fm::comm {

enum class Between : std::uint8_t { kMessages, kSharedMemory };

// Runs `body` once per rank. Rethrows the first failure after aborting the others' waits;
// fails when a wait takes longer than `timeout_ms`.
void run_ranks(int size, const std::function<void(Communicator&)>& body, int timeout_ms = 10'000,
               Between between = Between::kMessages);

}  // namespace fm::comm
