// Ranks that were started with different files or flags would train together, and nobody would
// know what.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "engine/options.h"
#include "model/family.h"

namespace fm::engine {

// Everything that all ranks must have in common, by the names of flags and keys: a JSON object.
std::string start_values(const TrainOptions& options, const model::ModelFacts& facts);

// The same of the data, once they are open; fingerprints, "" where there is none.
std::string data_values(const std::string& training, const std::string& evaluation);

// Collective. `mine`: a JSON object. Throws UserError (10) on all ranks, naming the first rank
// whose values differ from rank 0's, the keys and both values.
void check_same_start(const std::string& mine, comm::Communicator& world);

}  // namespace fm::engine
