#include "text/jinja/filters.h"

#include <algorithm>

#include "core/text.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/format.h"

namespace fm::jinja {
namespace {

// Filters that take whatever another filter or test takes.
constexpr std::string_view kOpenFilters[] = {"format",     "map",    "reject",
                                             "rejectattr", "select", "selectattr"};

const FilterRow* find_row(std::string_view name) {
  for (const auto rows : {text_filters(), list_filters()}) {
    for (const FilterRow& row : rows) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

bool is_open(std::string_view name) {
  return std::find(std::begin(kOpenFilters), std::end(kOpenFilters), name) !=
         std::end(kOpenFilters);
}

// The arguments behind the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& name_at(const Arguments& arguments, std::size_t place) {
  if (arguments.positional.size() <= place) fail("the name of a filter or a test is required");
  return need_text(arguments.positional[place]);
}

Value map_attribute(const Value& value, const Arguments& arguments) {
  constexpr std::string_view kParameters[] = {"attribute", "default"};
  const Bound bound(arguments, kParameters, "map");
  Values mapped;
  for (const Value& item : iterate(value)) {
    Value found = path_of(item, bound.need(0));
    if (bound.find(1) != nullptr && !bound.find(1)->is<None>() && found.is<Undefined>())
      found = *bound.find(1);
    count_value(found);
    mapped.push_back(std::move(found));
  }
  return make_sequence(SequenceKind::kIterator, std::move(mapped));
}

Value map_filter(const Value& value, const Arguments& arguments) {
  Value nothing = make_sequence(SequenceKind::kIterator, {});
  if (!truthy(value)) return nothing;
  if (arguments.positional.empty()) return map_attribute(value, arguments);
  const std::string& name = name_at(arguments, 0);
  const Arguments rest = rest_of(arguments, 1);
  Values mapped;
  for (const Value& item : iterate(value)) mapped.push_back(call_filter(name, item, rest));
  return make_sequence(SequenceKind::kIterator, std::move(mapped));
}

// select, reject, selectattr, rejectattr: the items that pass a test, or the others.
Value choose_items(std::string_view filter, const Value& value, const Arguments& arguments) {
  Values kept;
  if (!truthy(value)) return make_sequence(SequenceKind::kIterator, {});
  const bool wanted = filter.starts_with("select");
  const std::size_t paths = filter.ends_with("attr") ? 1 : 0;
  if (arguments.positional.size() < paths) fail(filter, " needs an attribute");
  const bool has_test = arguments.positional.size() > paths;
  const Arguments rest = rest_of(arguments, paths + (has_test ? 1 : 0));
  for (const Value& item : iterate(value)) {
    const Value tried = paths == 0 ? item : path_of(item, arguments.positional[0]);
    const bool passes =
        has_test ? call_test(name_at(arguments, paths), tried, rest) : truthy(tried);
    if (passes == wanted) kept.push_back(item);
  }
  return make_sequence(SequenceKind::kIterator, std::move(kept));
}

Value format_filter(const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    fail("format takes values in order or by name, not both");
  if (!arguments.named.empty())
    return make_text(percent_format(to_text(value), make_dict(arguments.named)));
  return make_text(percent_format(to_text(value), make_tuple(arguments.positional)));
}

}  // namespace

bool is_filter(std::string_view name) { return is_open(name) || find_row(name) != nullptr; }

std::string filter_names() {
  std::vector<std::string> names(std::begin(kOpenFilters), std::end(kOpenFilters));
  for (const auto rows : {text_filters(), list_filters()}) {
    for (const FilterRow& row : rows) names.emplace_back(row.name);
  }
  std::sort(names.begin(), names.end());
  return core::join(names, ", ");
}

Value call_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  if (name == "map") return map_filter(value, arguments);
  if (name == "format") return format_filter(value, arguments);
  if (is_open(name)) return choose_items(name, value, arguments);
  const FilterRow* row = find_row(name);
  if (row == nullptr) fail("a filter must be one of ", filter_names(), " (", name, ")");
  const auto end = std::find(row->parameters.begin(), row->parameters.end(), "");
  const std::span<const std::string_view> parameters(row->parameters.begin(), end);
  Value result = row->call(value, Bound(arguments, parameters, name));
  count_value(result);
  return result;
}

}  // namespace fm::jinja
