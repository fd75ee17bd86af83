// Jinja's filters and tests.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace fm::jinja {

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
// For messages: "abs, attr, ...".
std::string filter_names();
std::string test_names();

Value call_filter(std::string_view name, const Value& value, const Arguments& arguments);
bool call_test(std::string_view name, const Value& value, const Arguments& arguments);

// The filters that take their arguments by name, in two tables.

struct FilterRow {
  std::string_view name;
  std::array<std::string_view, 4> parameters;  // "" behind the last one
  Value (*call)(const Value& value, const Bound& arguments);
};

std::span<const FilterRow> text_filters();
std::span<const FilterRow> list_filters();

// value.a.0.b of "a.0.b", by item_of; other values than text are one item's index.
Value path_of(const Value& value, const Value& path);

}  // namespace fm::jinja
