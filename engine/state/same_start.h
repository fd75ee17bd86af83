// Ranks that were started with different files or flags would train together, and nobody would
// know what.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "engine/state/run_facts.h"

namespace fm::engine {

// Collective. Throws UserError (10) on all ranks, naming the first rank whose facts that ranks must
// agree on differ from rank 0's, the facts and both values.
void check_same_start(const std::vector<Fact>& facts, comm::Communicator& world);

}  // namespace fm::engine
