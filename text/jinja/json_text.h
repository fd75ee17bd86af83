// Values out of JSON and into it, as Python's json module has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace fm::jinja {

// What becomes of integers beyond 64 bits: model_max_length of many folders is one, and hashes
// beside texts are often.
enum class LargeIntegers : std::uint8_t { kExact, kFloats };

// One JSON value, keys in order; of a key that is there twice the last value counts. Throws
// UserError (11) with `where` ("chats.jsonl:7") before the reason.
Value parse_json(std::string_view text, const std::string& where,
                 LargeIntegers large = LargeIntegers::kExact);

struct JsonStyle {
  bool ascii = false;                      // others as \uXXXX
  bool sorted = false;                     // keys
  std::optional<std::string> indent = {};  // of one level; else one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// json.dumps.
std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace fm::jinja
