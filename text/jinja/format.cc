#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/text.h"
#include "text/jinja/arguments.h"
#include "text/jinja/code_points.h"

namespace fm::jinja {
namespace {

constexpr std::size_t kMostWidth = 1000;

// Looks at the size as it grows: a short form may name a long value very often.
void append(std::string& out, std::string_view text) {
  out += text;
  if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
}

struct FormatSpec {
  std::string key;  // of %(key)s
  bool has_key = false;
  std::string flags;
  std::size_t width = 0;
  int precision = -1;
  char kind = 0;
};

bool is_digit(char one) { return one >= '0' && one <= '9'; }

std::size_t read_number(const std::string& text, std::size_t& at) {
  std::size_t number = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    number = 10 * number + static_cast<std::size_t>(text[at] - '0');
    if (number > kMostWidth) fail("a width of at most ", kMostWidth, " is required");
  }
  return number;
}

// Reads what follows '%' at `at`, which moves behind it.
FormatSpec read_form(const std::string& text, std::size_t& at) {
  FormatSpec form;
  if (at < text.size() && text[at] == '(') {
    const std::size_t end = text.find(')', at);
    if (end == std::string::npos)
      fail("%(name)s must have its bracket (", core::shortened(text), ")");
    form.key = text.substr(at + 1, end - at - 1);
    form.has_key = true;
    at = end + 1;
  }
  while (at < text.size() && std::strchr("-+ 0#", text[at]) != nullptr) form.flags += text[at++];
  form.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') {
    ++at;
    form.precision = static_cast<int>(read_number(text, at));
  }
  if (at == text.size())
    fail("a form such as %s or %d is required after '%' (", core::shortened(text), ")");
  form.kind = text[at++];
  return form;
}

// By printf; `length` is "ll" for integers.
template <class Number>
std::string print(const FormatSpec& form, const char* length, char kind, Number number) {
  std::string pattern = "%" + form.flags;
  if (form.width > 0) pattern += std::to_string(form.width);
  if (form.precision >= 0) pattern += "." + std::to_string(form.precision);
  pattern += length;
  pattern += kind;
  std::string out(kMostWidth + 400, '\0');
  const int size = std::snprintf(out.data(), out.size(), pattern.c_str(), number);
  out.resize(static_cast<std::size_t>(std::max(0, size)));
  return out;
}

std::string padded(const FormatSpec& form, const std::string& text) {
  std::u32string points = decode(text);
  if (form.precision >= 0 && points.size() > static_cast<std::size_t>(form.precision))
    points.resize(static_cast<std::size_t>(form.precision));
  const std::size_t missing = form.width > points.size() ? form.width - points.size() : 0;
  const std::string pad(missing, ' ');
  const bool left = form.flags.find('-') != std::string::npos;
  return left ? encode(points) + pad : pad + encode(points);
}

double real_number(const Value& value) {
  if (const double* real = value.get<double>()) return *real;
  return static_cast<double>(need_whole(value));
}

std::string whole_form(const FormatSpec& form, const Value& value) {
  const double* real = value.get<double>();
  if (real != nullptr && std::abs(*real) < 9e18 && form.kind != 'x' && form.kind != 'X' &&
      form.kind != 'o')
    return print(form, "ll", 'd', static_cast<long long>(*real));
  const auto whole = static_cast<long long>(need_whole(value));
  switch (form.kind) {
    case 'd':
    case 'i':
    case 'u': return print(form, "ll", 'd', whole);
    default: break;  // x, X, o: printf has them for what is not negative
  }
  if (whole < 0 || form.flags.find('#') != std::string::npos)
    fail("%x and %o take numbers from 0 up, without '#' (", whole, ")");
  return print(form, "ll", form.kind, whole);
}

std::string apply_form(const FormatSpec& form, const Value& value) {
  switch (form.kind) {
    case 's': return padded(form, to_text(value));
    case 'r': return padded(form, to_repr(value));
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': return whole_form(form, value);
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G': return print(form, "", form.kind, real_number(value));
    default: break;  // what Python has besides
  }
  fail("one of %s %r %d %i %u %x %X %o %f %e %g %% is required (%", form.kind, ")");
}

}  // namespace

std::string percent_format(const std::string& text, const Value& values) {
  const Sequence* tuple = values.sequence();
  if (tuple != nullptr && tuple->kind != SequenceKind::kTuple) tuple = nullptr;
  const Dict* dict = values.dict();
  std::size_t used = 0;
  const auto next = [&]() -> const Value& {
    if (tuple == nullptr ? used > 0 : used >= tuple->items.size())
      fail("a value for each form is required (", core::shortened(text), ")");
    ++used;
    return tuple == nullptr ? values : tuple->items[used - 1];
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    const FormatSpec form = read_form(text, ++at);
    if (form.kind == '%') {
      out += '%';
    } else if (form.has_key) {
      const Value* value = dict == nullptr ? nullptr : dict->find(form.key);
      if (value == nullptr) fail("a dict with \"", core::shortened(form.key), "\" is required");
      append(out, apply_form(form, *value));
      used = 1;
    } else {
      append(out, apply_form(form, next()));
    }
  }
  const std::size_t given = tuple == nullptr ? 1 : tuple->items.size();
  if (used < given && dict == nullptr && !(values.sequence() != nullptr && tuple == nullptr))
    fail("a form for each value is required (", core::shortened(text), ")");
  return out;
}

std::string brace_format(const std::string& text, const Arguments& arguments) {
  std::string out;
  std::size_t automatic = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter != '{' && letter != '}') {
      out += letter;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == letter) {
      out += text[at++];
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (letter == '}' || end == std::string::npos)
      fail("braces in pairs are required; write {{ or }} for one (", core::shortened(text), ")");
    const std::string field = text.substr(at + 1, end - at - 1);
    if (field.find_first_of("!:.[{") != std::string::npos)
      fail("fields must be {}, {0} or {name}; use the filter format (", core::shortened(text), ")");
    const bool by_place = std::all_of(field.begin(), field.end(), is_digit);
    const Value* value = nullptr;
    if (by_place) {
      const std::size_t place = field.empty() ? automatic++ : std::stoul(field.substr(0, 6));
      if (place < arguments.positional.size()) value = &arguments.positional[place];
    }
    for (const auto& [name, named] : arguments.named) {
      if (!by_place && name == field) value = &named;
    }
    if (value == nullptr) fail("a value for each field is required (", core::shortened(text), ")");
    append(out, to_text(*value));
    at = end;
  }
  return out;
}

std::string time_text(const std::string& form, std::time_t now) {
  if (form.empty()) return "";
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(form.size() + 2000, '\0');
  out.resize(std::strftime(out.data(), out.size(), form.c_str(), &local));
  return out;
}

}  // namespace fm::jinja
