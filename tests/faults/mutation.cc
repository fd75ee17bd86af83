#include "tests/faults/mutation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/text.h"

namespace fm::faults {
namespace {

using Json = nlohmann::ordered_json;

template <class T, std::size_t kSize>
const T& one_of(const T (&all)[kSize], Random& random) {
  return all[below(random, kSize)];
}

std::string random_bytes(Random& random, std::size_t count) {
  std::string bytes;
  for (std::size_t at = 0; at < count; ++at) bytes += static_cast<char>(random());
  return bytes;
}

// A number as formats have them: sizes, offsets, counts.
std::string odd_number(Random& random) {
  constexpr std::uint64_t kOdd[] = {0,
                                    1,
                                    2,
                                    0x7F,
                                    0xFF,
                                    0xFFFF,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0xFFFFFFFF,
                                    0x7FFFFFFFFFFFFFFF,
                                    0x8000000000000000,
                                    0xFFFFFFFFFFFFFFFF};
  const std::uint64_t number = one_of(kOdd, random) + below(random, 3) - 1;
  std::string bytes;
  const std::size_t width = std::size_t{1} << below(random, 4);
  for (std::size_t at = 0; at < width; ++at) bytes += static_cast<char>(number >> (8 * at));
  return bytes;
}

void change_bytes(std::string& file, Random& random) {
  constexpr std::size_t kLengths[] = {1, 1, 4, 8, 30, 400};
  const std::size_t at = below(random, file.size());
  const std::size_t length = std::min(one_of(kLengths, random), file.size() - at);
  switch (below(random, 10)) {
    case 0: file.replace(at, length, random_bytes(random, length)); break;
    case 1: file.insert(at, random_bytes(random, 1 + below(random, 20))); break;
    case 2: file.erase(at, length); break;
    case 3: file.insert(at, file.substr(at, length)); break;
    case 4: file.resize(at); break;
    case 5: file[at] = static_cast<char>(file[at] ^ (1 << below(random, 8))); break;
    case 6: file.replace(at, length, std::string(length, '\0')); break;
    case 7: file.insert(at, file.substr(below(random, file.size()), 40)); break;
    default: {  // the eighth and ninth: another number
      const std::string number = odd_number(random);
      file.replace(at, number.size(), number);
      break;
    }
  }
}

void paths_of(const Json& value, const Json::json_pointer& at,
              std::vector<Json::json_pointer>& paths) {
  if (!value.is_structured()) return;
  std::size_t index = 0;
  for (const auto& [key, inner] : value.items()) {
    const Json::json_pointer path = value.is_object() ? at / key : at / index++;
    paths.push_back(path);
    paths_of(inner, path, paths);
  }
}

// What can be in the place of a value; some of it is hardly JSON.
std::string odd_value(Random& random) {
  constexpr const char* kOdd[] = {"null",
                                  "true",
                                  "false",
                                  "0",
                                  "1",
                                  "-1",
                                  "0.5",
                                  "2",
                                  "1e308",
                                  "-1e308",
                                  "1e-300",
                                  "4294967296",
                                  "2147483647",
                                  "-2147483648",
                                  "1000000",
                                  "9223372036854775807",
                                  "18446744073709551615",
                                  "1000000000000000000000000000000",
                                  "\"\"",
                                  "\"x\"",
                                  "\"auto\"",
                                  "\"1\"",
                                  "\"\\u0000\"",
                                  "\"\\ud800\"",
                                  "[]",
                                  "{}",
                                  "[1]",
                                  "[[[]]]",
                                  "[null,null]",
                                  "{\"x\":1}",
                                  "{\"\":{}}",
                                  "NaN",
                                  "Infinity",
                                  "1e999",
                                  "01",
                                  "+1",
                                  "0x10",
                                  "1e",
                                  "nul",
                                  "'x'",
                                  "{",
                                  "]"};
  switch (below(random, 8)) {
    case 0: {
      constexpr std::size_t kDepths[] = {100, 150, 1'000, 100'000};
      const std::size_t depth = one_of(kDepths, random);
      return std::string(depth, '[') + std::string(depth, ']');
    }
    case 1: return "\"" + std::string(std::size_t{1} << below(random, 20), 'a') + "\"";
    case 2: return std::to_string(static_cast<std::int64_t>(random()));
    default:  // most are of the list
      return one_of(kOdd, random);
  }
}

// False: there is nothing to change.
bool change_json(std::string& file, Random& random) {
  if (!core::is_shallow(file)) return false;
  Json value = Json::parse(file, nullptr, false);
  std::vector<Json::json_pointer> paths;
  if (value.is_discarded()) return false;
  paths_of(value, Json::json_pointer(), paths);
  if (paths.empty()) return false;
  const Json::json_pointer& path = paths[below(random, paths.size())];
  Json& holder = value[path.parent_pointer()];
  const auto dump = [&] { return value.dump(-1, ' ', false, Json::error_handler_t::replace); };
  switch (below(random, 6)) {
    case 0:
      holder.is_object() ? holder.erase(path.back())
                         : (holder.erase(below(random, holder.size())), std::size_t{0});
      break;
    case 1: {  // another value of the same file
      const Json other = value[paths[below(random, paths.size())]];
      value[path] = other;
      break;
    }
    case 2:
      if (holder.is_object()) {  // a key has a letter too many, or another
        std::string name = path.back();
        Json moved = value[path];
        holder.erase(name);
        name.insert(below(random, name.size() + 1), 1, "x. _\t"[below(random, 5)]);
        holder[name] = std::move(moved);
      } else {
        const Json item = value[path];
        for (auto times = below(random, 3'000); times > 0; --times) holder.push_back(item);
      }
      break;
    default: {  // an odd value, or the same key twice
      const Json old = value[path];
      value[path] = "@@";
      std::string odd = odd_value(random);
      file = dump();
      if (holder.is_object() && below(random, 4) == 0) {
        odd +=
            ",\"" + path.back() + "\":" + old.dump(-1, ' ', true, Json::error_handler_t::replace);
      }
      file.replace(file.find("\"@@\""), 4, odd);
      return true;
    }
  }
  file = dump();
  return true;
}

bool change_line(std::string& file, Random& random) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t at = 0; at + 1 < file.size(); ++at) {
    if (file[at] == '\n') begins.push_back(at + 1);
  }
  const std::size_t begin = begins[below(random, begins.size())];
  const std::size_t end = std::min(file.find('\n', begin), file.size());
  std::string line = file.substr(begin, end - begin);
  if (!change_json(line, random)) return false;
  file.replace(begin, end - begin, line);
  return true;
}

void change_template(std::string& file, Random& random) {
  constexpr const char* kPieces[] = {"{{",
                                     "}}",
                                     "{%",
                                     "%}",
                                     "{% endfor %}",
                                     "{% for i in range(99999) %}",
                                     "|upper",
                                     "|tojson",
                                     "{% set x = x ~ x %}",
                                     "{% set x = [x, x] %}",
                                     ".split('a')",
                                     " * 1000000",
                                     "|list",
                                     "{% set x = 'a' * 3000000 %}",
                                     "|join(x)",
                                     "{% macro f(a) %}",
                                     "{% endmacro %}",
                                     "{{ f(f) }}",
                                     "[::-1]",
                                     "|sort",
                                     "namespace(x=1)",
                                     "messages",
                                     "|map(attribute='content')",
                                     "loop.length",
                                     "{% if x in x %}",
                                     "{% endif %}",
                                     "|replace('a', x)",
                                     " ** 9",
                                     "|unique",
                                     "x.format(x)",
                                     "{% set ns.x = ns %}",
                                     "raise_exception(x)",
                                     "|indent(999)",
                                     "strftime_now('%Y')",
                                     "- ",
                                     "~ x"};
  const std::size_t at = below(random, file.size() + 1);
  switch (below(random, 4)) {
    case 0: file.erase(std::min(at, file.size() - 1), 1 + below(random, 6)); break;
    case 1: file.insert(at, file.substr(below(random, file.size()), below(random, 60))); break;
    default:  // the others put a piece in
      file.insert(at, one_of(kPieces, random));
      break;
  }
}

void change_text(std::string& file, Random& random) {
  const std::size_t at = below(random, file.size());
  switch (below(random, 4)) {
    case 0: file.insert(at, std::size_t{1} << below(random, 18), file[at]); break;
    case 1: file.insert(at, 1, "\n \t\0\r"[below(random, 5)]); break;
    default:  // the others are as in any file
      change_bytes(file, random);
      break;
  }
}

}  // namespace

std::string mutated(const std::string& file, Kind kind, Random& random) {
  std::string changed = file;
  for (auto times = 1 + below(random, 5) / 3; times > 0; --times) {
    if (changed.empty()) break;
    const bool plain = kind == Kind::kBytes || below(random, 4) == 0;
    bool done = false;
    if (!plain) {
      switch (kind) {
        case Kind::kBytes: break;
        case Kind::kJson: done = change_json(changed, random); break;
        case Kind::kJsonLines: done = change_line(changed, random); break;
        case Kind::kTemplate: done = (change_template(changed, random), true); break;
        case Kind::kText: done = (change_text(changed, random), true); break;
      }
    }
    if (!done) change_bytes(changed, random);
  }
  return changed;
}

std::string random_pattern(Random& random) {
  constexpr const char* kAtoms[] = {"a",
                                    ".",
                                    "[a-z]",
                                    "[^a]",
                                    "\\p{L}",
                                    "\\p{Foo}",
                                    "\\s",
                                    "\\d+",
                                    "(a|aa)",
                                    "(?:a+)",
                                    "(?<g>a\\g<g>?)",
                                    "\\g<g>",
                                    "\\k<g>",
                                    "\\1",
                                    "(?=a)",
                                    "(?!b)",
                                    "(?<=a)",
                                    "(?<!aa)",
                                    "(?>a*)",
                                    "\\b",
                                    "^",
                                    "$",
                                    "\\G",
                                    "\\p{^Lu}",
                                    "(?i)",
                                    "(",
                                    ")",
                                    "[",
                                    "\\",
                                    "\\x{10FFFF}",
                                    "\u00e9",
                                    "(?i:'s)",
                                    "[[:alpha:]&&[^a]]",
                                    "\\R",
                                    "\\X",
                                    "(?~a)",
                                    "\\k<nope>",
                                    "(?<n>)",
                                    "(?(1)a|b)",
                                    "\\h"};
  constexpr const char* kTimes[] = {"", "", "", "*", "+", "?", "{2,30}", "{1000}", "*?", "++", "|"};
  std::string pattern;
  for (auto parts = 1 + below(random, 8); parts > 0; --parts) {
    pattern += one_of(kAtoms, random);
    pattern += one_of(kTimes, random);
    if (below(random, 5) == 0) pattern = "(?:" + pattern + ")" + one_of(kTimes, random);
  }
  if (below(random, 50) == 0) pattern += std::string(std::size_t{1} << below(random, 17), 'a');
  return pattern;
}

}  // namespace fm::faults
