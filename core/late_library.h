// Libraries that a program loads when it needs them: what few runs use costs the others no start.
#pragma once

namespace fm::core {

// The function `name` of `library`, a file name that is looked for where the program's own
// libraries lie. It stays loaded. UserError (10) when there is none.
void* late_symbol(const char* library, const char* name);

}  // namespace fm::core
