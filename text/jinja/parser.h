// From tokens to a tree.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/tree.h"

namespace fm::jinja {

// Throws UserError (11) "FILE:LINE: ..." for what is no template and for what this subset has not:
// filters and tests that it does not know, include, import, extends, block, *arguments, ...
Body parse_template(std::string_view source, const std::string& file);

}  // namespace fm::jinja
