#include "text/jinja/methods.h"

#include <algorithm>
#include <array>

#include "text/jinja/arguments.h"
#include "text/jinja/code_points.h"
#include "text/jinja/format.h"

namespace fm::jinja {
namespace {

using Names = std::array<std::string_view, 2>;

struct TextMethod {
  std::string_view name;
  Names parameters;
  Value (*call)(const std::string& text, const Bound& arguments);
};

template <Side kSide>
Value strip_method(const std::string& text, const Bound& arguments) {
  const Value* characters = arguments.find(0);
  if (characters == nullptr || characters->is<None>()) return std::string(strip(text, kSide));
  return strip(text, need_text(*characters), kSide);
}

template <bool kAtStart>
Value matches_end(const std::string& text, const Bound& arguments) {
  const Value& wanted = arguments.need(0);
  const auto matches = [&](const Value& part) {
    return kAtStart ? text.starts_with(need_text(part)) : text.ends_with(need_text(part));
  };
  if (arguments.find(1) != nullptr) fail("startswith and endswith take one argument here");
  const Sequence* tuple = wanted.sequence();
  if (tuple == nullptr || tuple->kind != SequenceKind::kTuple) return matches(wanted);
  return std::any_of(tuple->items.begin(), tuple->items.end(), matches);
}

Value split_method(const std::string& text, const Bound& arguments) {
  const Value* separator = arguments.find(0);
  const bool spaces = separator == nullptr || separator->is<None>();
  if (!spaces && need_text(*separator).empty()) fail("a separator must not be empty");
  return make_list(split_text(text, spaces ? "" : need_text(*separator), arguments.whole(1, -1)));
}

std::string backwards(const std::string& text) { return {text.rbegin(), text.rend()}; }

Value rsplit_method(const std::string& text, const Bound& arguments) {
  const std::string separator = arguments.text(0, "");
  if (separator.empty()) fail("rsplit needs a separator here; use split");
  Values parts;
  for (const Value& part :
       split_text(backwards(text), backwards(separator), arguments.whole(1, -1)))
    parts.emplace_back(backwards(*part.text()));
  std::reverse(parts.begin(), parts.end());
  return make_list(std::move(parts));
}

Value splitlines_method(const std::string& text, const Bound& arguments) {
  if (arguments.truth(0, false)) fail("splitlines without line ends is required");
  Values lines;
  for (std::string& line : split_lines(text)) lines.emplace_back(std::move(line));
  return make_list(std::move(lines));
}

Value count_method(const std::string& text, const Bound& arguments) {
  const std::string& part = need_text(arguments.need(0));
  if (part.empty()) return count_points(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = find_text(text, part); at != text.npos;
       at = find_text(text, part, at + part.size()))
    ++count;
  return count;
}

Value find_method(const std::string& text, const Bound& arguments) {
  const std::size_t at = find_text(text, need_text(arguments.need(0)));
  if (at == std::string::npos) return std::int64_t{-1};
  return count_points(std::string_view(text).substr(0, at));
}

Value rfind_method(const std::string& text, const Bound& arguments) {
  const std::size_t at = rfind_text(text, need_text(arguments.need(0)));
  if (at == std::string::npos) return std::int64_t{-1};
  return count_points(std::string_view(text).substr(0, at));
}

Value index_method(const std::string& text, const Bound& arguments) {
  Value found = find_method(text, arguments);
  if (*found.get<std::int64_t>() < 0) fail("the text must be found by index; use find");
  return found;
}

Value replace_method(const std::string& text, const Bound& arguments) {
  return make_text(
      replace_text(text, need_text(arguments.need(0)), need_text(arguments.need(1)), -1));
}

template <bool kAtStart>
Value remove_end(const std::string& text, const Bound& arguments) {
  const std::string& part = need_text(arguments.need(0));
  const bool has = kAtStart ? text.starts_with(part) : text.ends_with(part);
  if (!has) return text;
  return kAtStart ? text.substr(part.size()) : text.substr(0, text.size() - part.size());
}

// For ASCII, where it is plain what a digit or a letter is.
template <bool (*kIs)(char)>
Value all_are(const std::string& text, const Bound&) {
  if (std::any_of(text.begin(), text.end(), [](char one) { return (one & 0x80) != 0; }))
    fail("isdigit, isalpha, isalnum are for ASCII here");
  return !text.empty() && std::all_of(text.begin(), text.end(), kIs);
}

bool is_digit(char one) { return one >= '0' && one <= '9'; }
bool is_letter(char one) { return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z'); }
bool is_either(char one) { return is_digit(one) || is_letter(one); }

Value is_space_method(const std::string& text, const Bound&) {
  const std::u32string points = decode(text);
  return !points.empty() && std::all_of(points.begin(), points.end(), is_space);
}

// Whether there are letters with a case, and all have it.
template <std::string (*kMap)(std::string_view), std::string (*kOther)(std::string_view)>
Value has_case(const std::string& text, const Bound&) {
  return kMap(text) == text && kOther(text) != text;
}

template <std::string (*kMap)(std::string_view)>
Value map_method(const std::string& text, const Bound&) {
  return kMap(text);
}

Value join_method(const std::string& text, const Bound& arguments) {
  Values texts = iterate(arguments.need(0));
  for (const Value& one : texts) need_text(one);
  return make_text(join_texts(texts, text));
}

constexpr TextMethod kTextMethods[] = {
    {"capitalize", {}, map_method<capitalize>},
    {"count", {"sub"}, count_method},
    {"endswith", {"suffix", "start"}, matches_end<false>},
    {"find", {"sub"}, find_method},
    {"index", {"sub"}, index_method},
    {"isalnum", {}, all_are<is_either>},
    {"isalpha", {}, all_are<is_letter>},
    {"isdigit", {}, all_are<is_digit>},
    {"islower", {}, has_case<lower, upper>},
    {"isspace", {}, is_space_method},
    {"isupper", {}, has_case<upper, lower>},
    {"join", {"iterable"}, join_method},
    {"lower", {}, map_method<lower>},
    {"lstrip", {"chars"}, strip_method<Side::kLeft>},
    {"removeprefix", {"prefix"}, remove_end<true>},
    {"removesuffix", {"suffix"}, remove_end<false>},
    {"replace", {"old", "new"}, replace_method},
    {"rfind", {"sub"}, rfind_method},
    {"rsplit", {"sep", "maxsplit"}, rsplit_method},
    {"rstrip", {"chars"}, strip_method<Side::kRight>},
    {"split", {"sep", "maxsplit"}, split_method},
    {"splitlines", {"keepends"}, splitlines_method},
    {"startswith", {"prefix", "start"}, matches_end<true>},
    {"strip", {"chars"}, strip_method<Side::kBoth>},
    {"title", {}, map_method<title>},
    {"upper", {}, map_method<upper>},
};
// What Python has besides.
constexpr std::string_view kOtherTextMethods[] = {
    "casefold", "center",     "encode",       "expandtabs", "format_map",
    "isascii",  "isdecimal",  "isidentifier", "isnumeric",  "isprintable",
    "istitle",  "ljust",      "maketrans",    "partition",  "rindex",
    "rjust",    "rpartition", "swapcase",     "translate",  "zfill"};
constexpr std::string_view kOtherDictMethods[] = {"copy", "fromkeys"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kNumberAttributes[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse(const Value& value, const std::string& name) {
  fail("only attributes of Jinja's common use are supported; rewrite the template (", name, " of ",
       kind_name(value), ")");
}

Value refused_change(const std::string& name) {
  return Undefined{core::concat("a template must not change its values (", name, ")")};
}

std::optional<Value> text_method(const Value& value, const std::string& name) {
  count_value(value);  // the method holds a copy
  if (name == "format")
    return make_function(name, [value](const Arguments& arguments) {
      return make_text(brace_format(*value.text(), arguments));
    });
  const auto found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                  [&](const TextMethod& method) { return method.name == name; });
  if (found == std::end(kTextMethods)) {
    if (is_one_of(name, kOtherTextMethods)) refuse(value, name);
    return std::nullopt;
  }
  const TextMethod& method = *found;
  return make_function(name, [value, &method](const Arguments& arguments) {
    const auto count = static_cast<std::size_t>(
        std::count_if(method.parameters.begin(), method.parameters.end(),
                      [](std::string_view parameter) { return !parameter.empty(); }));
    const Bound bound(arguments, {method.parameters.data(), count}, method.name);
    return method.call(*value.text(), bound);
  });
}

enum class View : std::uint8_t { kKeys, kValues, kItems };

Value view_of(const Dict& dict, View view) {
  Values items;
  for (const auto& [key, value] : dict.entries) {
    switch (view) {
      case View::kKeys: items.emplace_back(key); break;
      case View::kValues: items.push_back(value); break;
      case View::kItems: items.push_back(make_tuple({key, value})); break;
    }
  }
  return make_sequence(SequenceKind::kView, std::move(items));
}

std::optional<Value> dict_method(const Value& value, const std::string& name) {
  constexpr std::string_view kGet[] = {"key", "default"};
  if (name == "get")
    return make_function(name, [value, kGet](const Arguments& arguments) -> Value {
      const Bound bound(arguments, kGet, "get");
      const Value& key = bound.need(0);
      if (key.sequence() != nullptr || key.dict() != nullptr)
        fail("a key of a dict must be text (", kind_name(key), ")");
      const Value* found = key.text() == nullptr ? nullptr : value.dict()->find(*key.text());
      if (found != nullptr) return *found;
      return bound.find(1) == nullptr ? Value(None{}) : *bound.find(1);
    });
  const bool keys = name == "keys";
  if (keys || name == "values" || name == "items") {
    const View view = keys ? View::kKeys : name == "values" ? View::kValues : View::kItems;
    return make_function(name, [value, view, name](const Arguments& arguments) {
      const Bound none(arguments, {}, name);
      return view_of(*value.dict(), view);
    });
  }
  if (is_one_of(name, kDictChanges)) return refused_change(name);
  if (is_one_of(name, kOtherDictMethods)) refuse(value, name);
  return std::nullopt;
}

std::optional<Value> list_method(const Value& value, const std::string& name) {
  const SequenceKind kind = value.sequence()->kind;
  if (kind == SequenceKind::kList && is_one_of(name, kListChanges)) return refused_change(name);
  if (kind == SequenceKind::kView || kind == SequenceKind::kIterator) return std::nullopt;
  if (name == "count" || name == "index" || name == "copy") refuse(value, name);
  return std::nullopt;
}

}  // namespace

std::optional<Value> method_of(const Value& value, const std::string& name) {
  if (value.text() != nullptr) return text_method(value, name);
  if (value.dict() != nullptr) return dict_method(value, name);
  if (value.sequence() != nullptr) return list_method(value, name);
  const bool number = value.is<bool>() || value.is<std::int64_t>() || value.is<double>();
  if (number && is_one_of(name, kNumberAttributes)) refuse(value, name);
  return std::nullopt;
}

namespace {

void check_count(std::size_t parts) {
  if (parts >= kMostItems) fail("a value has at most ", kMostItems, " items, all levels");
}

}  // namespace

Values split_text(const std::string& text, const std::string& separator, std::int64_t most) {
  Values parts;
  std::string_view rest = text;
  if (!separator.empty()) {
    for (std::size_t at = find_text(rest, separator); at != rest.npos && most-- != 0;
         at = find_text(rest, separator)) {
      check_count(parts.size());
      parts.emplace_back(std::string(rest.substr(0, at)));
      rest.remove_prefix(at + separator.size());
    }
    parts.emplace_back(std::string(rest));
    return parts;
  }
  rest = strip(rest, Side::kLeft);
  std::u32string points = decode(rest);
  std::size_t at = 0;
  while (at < points.size()) {
    std::size_t end = at;
    const bool last = most-- == 0;
    check_count(parts.size());
    while (end < points.size() && (last || !is_space(points[end]))) ++end;
    parts.emplace_back(encode(std::u32string_view(points).substr(at, end - at)));
    at = end;
    while (at < points.size() && is_space(points[at])) ++at;
  }
  return parts;
}

std::vector<std::string> split_lines(const std::string& text) {
  constexpr std::u32string_view kEnds = U"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029";
  std::vector<std::string> lines;
  std::string line;
  const std::u32string points = decode(text);
  for (std::size_t at = 0; at < points.size(); ++at) {
    if (kEnds.find(points[at]) == kEnds.npos) {
      append_utf8(line, points[at]);
      if (at + 1 < points.size()) continue;
    } else if (points[at] == U'\r' && at + 1 < points.size() && points[at + 1] == U'\n') {
      ++at;
    }
    check_count(lines.size());
    lines.push_back(std::exchange(line, {}));
  }
  return lines;
}

std::string replace_text(const std::string& text, const std::string& old, const std::string& with,
                         std::int64_t most) {
  std::string out;
  std::size_t at = 0;
  const std::size_t limit = most < 0 ? text.size() + 1 : static_cast<std::size_t>(most);
  for (std::size_t times = 0; times < limit; ++times) {
    const std::size_t found = find_text(text, old, at);
    if (found == std::string::npos) break;
    out.append(text, at, found - at).append(with);
    if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
    at = found + old.size();
    if (!old.empty()) continue;
    if (at == text.size()) return out;
    do out += text[at++];  // one code point
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return out.append(text, at);
}

std::string join_texts(const Values& texts, const std::string& separator) {
  std::string out;
  for (const Value& one : texts) {
    if (&one != texts.data()) out += separator;
    out += to_text(one);
    if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
  }
  return out;
}

}  // namespace fm::jinja
