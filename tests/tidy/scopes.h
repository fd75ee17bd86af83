// Finds functions and declarations by matching braces: no parser, but exact for this code's style.
#pragma once

#include "tests/tidy/source.h"

namespace fm::tidy {

// Fills source.functions and source.declarations from source.tokens.
void find_scopes(Source& source);

}  // namespace fm::tidy
