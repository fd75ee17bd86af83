// Jinja's filters and tests.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace fm::jinja {

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
// For messages: "abs, attr, ...".
std::string filter_names();
std::string test_names();

Value call_filter(std::string_view name, const Value& value, const Arguments& arguments);
bool call_test(std::string_view name, const Value& value, const Arguments& arguments);

}  // namespace fm::jinja
