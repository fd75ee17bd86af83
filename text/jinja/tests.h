// Jinja's tests: value is name(arguments).
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace fm::jinja {

bool is_test(std::string_view name);
std::string test_names();  // for messages: "boolean, callable, ..."
bool call_test(std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace fm::jinja
