// Jinja's filters: value | name(arguments).
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace fm::jinja {

bool is_filter(std::string_view name);
std::string filter_names();  // for messages: "abs, attr, ..."
Value call_filter(std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace fm::jinja
