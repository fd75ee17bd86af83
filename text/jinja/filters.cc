#include "text/jinja/filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

#include "core/text.h"
#include "text/jinja/code_points.h"
#include "text/jinja/format.h"
#include "text/jinja/json_text.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"

namespace fm::jinja {
namespace {

// A filter that takes its arguments by name.
struct FilterRow {
  std::string_view name;
  std::array<std::string_view, 4> parameters;  // "" behind the last one
  Value (*call)(const Value& value, const Bound& arguments);
};

// value.a.0.b of "a.0.b", by item_of; other values than text are one item's index.
Value path_of(const Value& value, const Value& path) {
  if (path.text() == nullptr) return item_of(value, path);
  Value found = value;
  for (const Value& part : split_text(*path.text(), ".", -1)) {
    const std::string& name = *part.text();
    const bool is_number = !name.empty() && name.size() < 10 &&
                           name.find_first_not_of("0123456789") == std::string::npos;
    found = item_of(found, is_number ? Value(std::int64_t{std::stoi(name)}) : part);
  }
  return found;
}

// Filters that take whatever another filter or test takes.
constexpr std::string_view kOpenFilters[] = {"format",     "map",    "reject",
                                             "rejectattr", "select", "selectattr"};

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

const Value* given(const Bound& arguments, std::size_t parameter) {
  const Value* value = arguments.find(parameter);
  return value == nullptr || value->is<None>() ? nullptr : value;
}

Value in_lower_case(const Value& value) {
  return value.text() == nullptr ? value : Value(lower(*value.text()));
}

// What an item is compared by: the item, or a path of it.
Value key_of(const Value& item, const Value* path, bool case_sensitive) {
  const Value key = path == nullptr ? item : path_of(item, *path);
  return case_sensitive ? key : in_lower_case(key);
}

bool is_iterator(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->kind == SequenceKind::kIterator;
}

Value length_filter(const Value& value, const Bound&) { return length(value); }

Value default_filter(const Value& value, const Bound& arguments) {
  const bool missing = value.is<Undefined>() || (arguments.truth(1, false) && !truthy(value));
  if (!missing) return value;
  return arguments.find(0) == nullptr ? Value("") : *arguments.find(0);
}

Value first_filter(const Value& value, const Bound&) {
  if (is_iterator(value)) {
    const Sequence& sequence = *value.sequence();
    if (sequence.next < sequence.items.size()) return sequence.items[sequence.next++];
    return Undefined{"there is no first item, the list is empty"};
  }
  const Sequence* sequence = value.sequence();
  const Values items = sequence == nullptr ? iterate(value) : Values();
  const Values& all = sequence == nullptr ? items : sequence->items;
  return all.empty() ? Value(Undefined{"there is no first item, the list is empty"}) : all.front();
}

Value last_filter(const Value& value, const Bound&) {
  if (is_iterator(value)) fail("last needs a list; add the filter list");
  const Sequence* sequence = value.sequence();
  const Values items = sequence == nullptr ? iterate(value) : Values();
  const Values& all = sequence == nullptr ? items : sequence->items;
  return all.empty() ? Value(Undefined{"there is no last item, the list is empty"}) : all.back();
}

Value list_filter(const Value& value, const Bound&) { return make_list(iterate(value)); }

Value reverse_filter(const Value& value, const Bound&) {
  Values items = iterate(value);
  std::reverse(items.begin(), items.end());
  if (value.text() != nullptr) return make_text(join_texts(items, ""));
  return make_sequence(is_iterator(value) ? SequenceKind::kList : SequenceKind::kIterator,
                       std::move(items));
}

Value join_filter(const Value& value, const Bound& arguments) {
  Values items = iterate(value);
  if (const Value* path = given(arguments, 1)) {
    for (Value& item : items) item = path_of(item, *path);
  }
  return make_text(
      join_texts(items, arguments.find(0) == nullptr ? "" : to_text(arguments.need(0))));
}

Value items_filter(const Value& value, const Bound&) {
  Values items;
  if (!value.is<Undefined>() && value.dict() == nullptr)
    fail("items needs a dict (", kind_name(value), ")");
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->entries) items.push_back(make_tuple({key, item}));
  }
  return make_sequence(SequenceKind::kIterator, std::move(items));
}

// Stable, as Python's sorted, also where it is reversed.
struct Keyed {
  Value key;
  Value item;
};
Value sorted_list(std::vector<Keyed> keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& left, const Keyed& right) {
    return reverse ? less(right.key, left.key) : less(left.key, right.key);
  });
  Values items;
  for (Keyed& one : keyed) items.push_back(std::move(one.item));
  return make_list(std::move(items));
}

Value sort_filter(const Value& value, const Bound& arguments) {
  const bool case_sensitive = arguments.truth(1, false);
  const Value* path = given(arguments, 2);
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(value)) {
    Values keys;
    if (path != nullptr && path->text() != nullptr) {
      for (const Value& one : split_text(*path->text(), ",", -1))
        keys.push_back(key_of(item, &one, case_sensitive));
    } else {
      keys.push_back(key_of(item, path, case_sensitive));
    }
    keyed.push_back({make_list(std::move(keys)), item});
  }
  return sorted_list(std::move(keyed), arguments.truth(0, false));
}

Value dictsort_filter(const Value& value, const Bound& arguments) {
  if (value.dict() == nullptr) fail("dictsort needs a dict (", kind_name(value), ")");
  const std::string by = arguments.text(1, "key");
  if (by != "key" && by != "value") fail("dictsort sorts by key or value (", by, ")");
  const bool case_sensitive = arguments.truth(0, false);
  std::vector<Keyed> keyed;
  for (const auto& [name, item] : value.dict()->entries) {
    const Value key = by == "key" ? Value(name) : item;
    keyed.push_back({case_sensitive ? key : in_lower_case(key), make_tuple({name, item})});
  }
  return sorted_list(std::move(keyed), arguments.truth(2, false));
}

Value unique_filter(const Value& value, const Bound& arguments) {
  const bool case_sensitive = arguments.truth(0, false);
  Values seen;
  Values kept;
  for (const Value& item : iterate(value)) {
    Value key = key_of(item, given(arguments, 1), case_sensitive);
    if (key.dict() != nullptr ||
        (key.sequence() != nullptr && key.sequence()->kind == SequenceKind::kList))
      fail("unique needs text or numbers (", kind_name(key), ")");
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& one) { return equal(one, key); }))
      continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return make_sequence(SequenceKind::kIterator, std::move(kept));
}

template <bool kLargest>
Value extreme_filter(const Value& value, const Bound& arguments) {
  const bool case_sensitive = arguments.truth(0, false);
  const Values items = iterate(value);
  if (items.empty()) return Undefined{"there is no item, the list is empty"};
  Keyed best{key_of(items[0], given(arguments, 1), case_sensitive), items[0]};
  for (std::size_t at = 1; at < items.size(); ++at) {
    Value key = key_of(items[at], given(arguments, 1), case_sensitive);
    if (kLargest ? less(best.key, key) : less(key, best.key)) best = {std::move(key), items[at]};
  }
  return best.item;
}

Value sum_filter(const Value& value, const Bound& arguments) {
  Value sum = arguments.find(1) == nullptr ? Value(std::int64_t{0}) : arguments.need(1);
  if (sum.text() != nullptr) fail("sum adds numbers or lists; use join for text");
  for (const Value& item : iterate(value)) {
    const Value* path = given(arguments, 0);
    sum = apply(Operator::kAdd, sum, path == nullptr ? item : path_of(item, *path));
  }
  return sum;
}

constexpr FilterRow kListFilters[] = {
    {"count", {}, length_filter},
    {"d", {"default_value", "boolean"}, default_filter},
    {"default", {"default_value", "boolean"}, default_filter},
    {"dictsort", {"case_sensitive", "by", "reverse"}, dictsort_filter},
    {"first", {}, first_filter},
    {"items", {}, items_filter},
    {"join", {"d", "attribute"}, join_filter},
    {"last", {}, last_filter},
    {"length", {}, length_filter},
    {"list", {}, list_filter},
    {"max", {"case_sensitive", "attribute"}, extreme_filter<true>},
    {"min", {"case_sensitive", "attribute"}, extreme_filter<false>},
    {"reverse", {}, reverse_filter},
    {"sort", {"reverse", "case_sensitive", "attribute"}, sort_filter},
    {"sum", {"attribute", "start"}, sum_filter},
    {"unique", {"case_sensitive", "attribute"}, unique_filter},
};

constexpr const char* kLarge = "integers have 64 bits here; use smaller numbers";

template <std::string (*kMap)(std::string_view)>
Value map_case(const Value& value, const Bound&) {
  return kMap(to_text(value));
}

// Jinja's title, which begins words at other places than Python's.
Value title_filter(const Value& value, const Bound&) {
  constexpr std::u32string_view kBreaks = U"-({[<";
  std::string out;
  bool begins = true;
  for (const char32_t point : decode(to_text(value))) {
    count_work(kItemBytes);
    const std::string letter = encode({&point, 1});
    out += begins ? upper(letter) : lower(letter);
    begins = is_space(point) || kBreaks.find(point) != kBreaks.npos;
  }
  return out;
}

Value trim_filter(const Value& value, const Bound& arguments) {
  const Value* characters = arguments.find(0);
  if (characters == nullptr || characters->is<None>())
    return std::string(strip(to_text(value), Side::kBoth));
  return strip(to_text(value), need_text(*characters), Side::kBoth);
}

Value replace_filter(const Value& value, const Bound& arguments) {
  const Value* most = arguments.find(2);
  const std::int64_t times = most == nullptr || most->is<None>() ? -1 : need_whole(*most);
  return make_text(
      replace_text(to_text(value), to_text(arguments.need(0)), to_text(arguments.need(1)), times));
}

Value string_filter(const Value& value, const Bound&) { return to_text(value); }

Value indent_filter(const Value& value, const Bound& arguments) {
  std::string indention(4, ' ');
  if (const Value* width = arguments.find(0)) {
    const std::int64_t spaces = width->text() == nullptr ? need_whole(*width) : 0;
    if (spaces > 1000) fail("an indent of at most 1000 is required (", spaces, ")");
    indention = width->text() != nullptr
                    ? *width->text()
                    : std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, spaces)), ' ');
  }
  const std::vector<std::string> lines = split_lines(need_text(value) + "\n");
  const bool blank = arguments.truth(2, false);
  std::string out = arguments.truth(1, false) ? indention : "";
  for (const std::string& line : lines) {
    if (&line != lines.data()) {
      out += '\n';
      if (blank || !line.empty()) out += indention;
    }
    out += line;
    if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
  }
  return out;
}

// float(text) of Python.
std::optional<double> read_real(std::string_view text) {
  const std::string plain = lower(strip(text, Side::kBoth));
  if (plain.find('_') != plain.npos ||
      plain.size() != static_cast<std::size_t>(count_points(plain)))
    fail("a number in ASCII without underscores is required (", core::shortened(text), ")");
  const std::string unsigned_part = plain.substr(plain.find_first_not_of("+-") == 1 ? 1 : 0);
  const bool word = unsigned_part == "inf" || unsigned_part == "infinity" || unsigned_part == "nan";
  if (!word && (plain.empty() || plain.find_first_not_of("0123456789+-.e") != plain.npos))
    return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return number;
}

// int(text, base) of Python.
std::optional<std::int64_t> read_whole(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  std::string plain = lower(strip(text, Side::kBoth));
  if (plain.find('_') != plain.npos)
    fail("a number without underscores is required (", core::shortened(text), ")");
  const std::size_t digits = plain.find_first_not_of("+-") == 1 ? 1 : 0;
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && plain.compare(digits, 2, prefix) == 0) plain.erase(digits, 2);
  if (plain.size() == digits || base == 0) return std::nullopt;
  if (!std::isalnum(static_cast<unsigned char>(plain[digits]))) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(plain.c_str(), &end, static_cast<int>(base));
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  if (errno == ERANGE)
    fail("integers have 64 bits here; use smaller numbers (", core::shortened(text), ")");
  return number;
}

Value int_filter(const Value& value, const Bound& arguments) {
  Value otherwise = arguments.find(0) == nullptr ? Value(std::int64_t{0}) : arguments.need(0);
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  if (value.is<LargeInteger>()) fail(kLarge);
  if (value.is<bool>() || value.is<std::int64_t>()) return need_whole(value);
  std::optional<double> real;
  if (value.is<double>()) real = *value.get<double>();
  if (const std::string* text = value.text()) {
    if (const auto whole = read_whole(*text, arguments.whole(1, 10))) return *whole;
    real = read_real(*text);
    if (real && std::isinf(*real)) return otherwise;
  }
  if (!real || std::isnan(*real)) return otherwise;
  if (std::abs(*real) >= 9.2e18) fail(kLarge);
  return static_cast<std::int64_t>(*real);
}

Value float_filter(const Value& value, const Bound& arguments) {
  Value otherwise = arguments.find(0) == nullptr ? Value(0.0) : arguments.need(0);
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  if (value.is<double>()) return value;
  if (value.is<LargeInteger>()) fail(kLarge);
  if (value.is<bool>() || value.is<std::int64_t>()) return static_cast<double>(need_whole(value));
  if (value.text() == nullptr) return otherwise;
  const std::optional<double> real = read_real(*value.text());
  return real ? Value(*real) : otherwise;
}

Value abs_filter(const Value& value, const Bound&) {
  if (const double* real = value.get<double>()) return std::abs(*real);
  const std::int64_t whole = need_whole(value);
  return whole < 0 ? negate(whole) : Value(whole);
}

Value round_filter(const Value& value, const Bound& arguments) {
  const std::int64_t digits = arguments.whole(0, 0);
  const std::string method = arguments.text(1, "common");
  if (digits < 0 || digits > 15) fail("a precision from 0 to 15 is required (", digits, ")");
  const bool whole = !value.is<double>();
  const double number = whole ? static_cast<double>(need_whole(value)) : *value.get<double>();
  if (method == "common") {
    if (whole) return need_whole(value);
    if (!std::isfinite(number)) return number;
    char text[400];
    std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(digits), number);
    return std::strtod(text, nullptr);
  }
  if (method != "ceil" && method != "floor")
    fail("common, ceil or floor is required (", method, ")");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return (method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale;
}

Value tojson_filter(const Value& value, const Bound& arguments) {
  JsonStyle style{.ascii = arguments.truth(0, false), .sorted = arguments.truth(3, false)};
  const Value* indent = arguments.find(1);
  if (indent != nullptr && !indent->is<None>()) {
    const std::int64_t width = indent->text() == nullptr ? need_whole(*indent) : 0;
    if (width > 1000) fail("an indent of at most 1000 is required (", width, ")");
    style.indent =
        indent->text() != nullptr
            ? *indent->text()
            : std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' ');
    style.item_separator = ",";
  }
  const Value* separators = arguments.find(2);
  if (separators != nullptr && !separators->is<None>()) {
    const Values parts = iterate(*separators);
    if (parts.size() != 2) fail("two separators are required (", parts.size(), ")");
    style.item_separator = need_text(parts[0]);
    style.key_separator = need_text(parts[1]);
  }
  return make_text(to_json(value, style));
}

constexpr FilterRow kTextFilters[] = {
    {"abs", {}, abs_filter},
    {"capitalize", {}, map_case<capitalize>},
    {"float", {"default"}, float_filter},
    {"indent", {"width", "first", "blank"}, indent_filter},
    {"int", {"default", "base"}, int_filter},
    {"lower", {}, map_case<lower>},
    {"replace", {"old", "new", "count"}, replace_filter},
    {"round", {"precision", "method"}, round_filter},
    {"safe", {}, string_filter},  // nothing is escaped
    {"string", {}, string_filter},
    {"title", {}, title_filter},
    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, tojson_filter},
    {"trim", {"chars"}, trim_filter},
    {"upper", {}, map_case<upper>},
};

constexpr std::span<const FilterRow> kFilterTables[] = {kTextFilters, kListFilters};

const FilterRow* find_row(std::string_view name) {
  for (const auto rows : kFilterTables) {
    for (const FilterRow& row : rows) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

}  // namespace

bool is_filter(std::string_view name) { return is_open(name) || find_row(name) != nullptr; }

std::string filter_names() {
  std::vector<std::string> names(std::begin(kOpenFilters), std::end(kOpenFilters));
  for (const auto rows : kFilterTables) {
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
