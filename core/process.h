// What this process asks of its system: its environment, the name of the host, and libraries on
// demand.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace fm::core {

// The value of a variable, where it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// gethostname(2); "?" where the system does not tell.
std::string host_name();

// Libraries that a program loads when it needs them: what few runs use costs the others no start.

// The function `name` of `library`, a file name that is looked for where the program's own
// libraries lie. It stays loaded. UserError (10) when there is none.
void* late_symbol(const char* library, const char* name);

}  // namespace fm::core
