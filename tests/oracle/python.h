// The Python that has the reference implementations and torchrun.
#pragma once

#include <string>

namespace fm::oracle {

// $FM_ORACLE_PYTHON, otherwise what scripts/setup.sh --tests made. Throws std::runtime_error when
// it cannot be run.
std::string python();

}  // namespace fm::oracle
