#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "core/text.h"
#include "text/jinja/code_points.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/json_text.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace fm::jinja {
namespace {

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

constexpr FilterRow kRows[] = {
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

}  // namespace

std::span<const FilterRow> text_filters() { return kRows; }

}  // namespace fm::jinja
