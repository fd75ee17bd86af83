// What every rank has to say, for all to compare.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace fm::engine {

// Collective: the texts of all ranks, of any lengths, by rank.
std::vector<std::string> gather_texts(const std::string& mine, comm::Communicator& world);

}  // namespace fm::engine
