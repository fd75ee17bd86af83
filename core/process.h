// What this process asks of its system: the name of the host, and libraries on demand.
#pragma once

#include <string>

namespace fm::core {

// gethostname(2); "?" where the system does not tell.
std::string host_name();

// Libraries that a program loads when it needs them: what few runs use costs the others no start.

// The function `name` of `library`, a file name that is looked for where the program's own
// libraries lie. It stays loaded. UserError (10) when there is none.
void* late_symbol(const char* library, const char* name);

}  // namespace fm::core
