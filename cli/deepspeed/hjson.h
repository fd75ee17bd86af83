// A tolerant reader for DeepSpeed's JSON, as hjson.load reads it: comments (#, //, /* */), trailing
// or missing commas, unquoted keys, unquoted strings (to the end of the line), '''text'''. Every
// value knows its line, so that a refusal can name it.
//
//   value  = object | array | quoted | '''text''' | tfnns
//   object = "{" { key ":" value [","] } "}"      the braces of the root may be left out
//   tfnns  = true | false | null | number         when followed by , } ] # // /* or end of line
//          | text up to the end of the line       otherwise
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fm::cli {

struct Value {
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  struct Member;

  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0;
  std::string text;  // of a string; of a number as it was written
  std::vector<Value> items;
  std::vector<Member> members;  // in the order of the file
  int line = 0;                 // 1-based

  bool is_object() const { return kind == Kind::kObject; }
  const Value* find(std::string_view key) const;  // null when absent or not an object
};

struct Value::Member {
  std::string key;
  Value value;
};

// "true", "5e8", "\"cpu\"", "[0.9, 0.95]", "{...}": for messages.
std::string show(const Value& value);

// The number that a JSON number token stands for; nothing when `token` is not one.
std::optional<double> parse_number(std::string_view token);

// `name` stands for the text in messages ("llama.json"). UserError (10) names it with the line.
Value parse_hjson(std::string_view text, const std::string& name);

struct ConfigText {
  std::string text;
  std::string name;  // for messages
};
// What DeepSpeed accepts as a configuration: the path of a file, url-safe base64 of the JSON text;
// also the JSON text itself, as accelerate does. UserError (10) otherwise.
ConfigText load_config_text(const std::string& path_or_text);

}  // namespace fm::cli
