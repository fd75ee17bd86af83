// The methods of Python's text, dicts and lists.
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace fm::jinja {

// The method, bound to the value; nullopt: Python has no such attribute. Refuses what Python has
// and this subset has not. What changes a dict or a list is undefined, as in jinja2's sandbox.
std::optional<Value> method_of(const Value& value, const std::string& name);

// str.split(separator, most) and str.splitlines(); an empty separator means whitespace; -1: all.
Values split_text(const std::string& text, const std::string& separator, std::int64_t most);
std::vector<std::string> split_lines(const std::string& text);
std::string replace_text(const std::string& text, const std::string& old, const std::string& with,
                         std::int64_t most);
std::string join_texts(const Values& texts, const std::string& separator);

}  // namespace fm::jinja
