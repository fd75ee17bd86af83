// The name of this machine among the hosts of a run.
#pragma once

#include <string>

namespace fm::core {

// gethostname(2); "?" where the system does not tell.
std::string host_name();

}  // namespace fm::core
