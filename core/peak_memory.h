// The most memory that this process had in use at a time.
#pragma once

#include "core/types.h"

namespace fm::core {

// Resident pages at their peak, shared ones included. getrusage() would tell the peak of whatever
// process became this one through exec, such as a Python launcher's.
Bytes peak_memory();

}  // namespace fm::core
