// A world of one: every verb is a copy or nothing, so nobody else needs a branch.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace fm::comm {

// Sending to or receiving from oneself is a BugError, as in every backend.
std::unique_ptr<Communicator> make_solo();

}  // namespace fm::comm
