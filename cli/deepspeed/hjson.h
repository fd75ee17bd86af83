// A tolerant reader for DeepSpeed's JSON, as hjson.load reads it: comments (#, //, /* */), trailing
// or missing commas, unquoted keys, unquoted strings (to the end of the line), '''text'''. Every
// value knows its line, so that a refusal can name it; a member that of its key.
//
//   value  = object | array | quoted | '''text''' | tfnns
//   object = "{" { key ":" value [","] } "}"      the braces of the root may be left out
//   tfnns  = true | false | null | number         when followed by , } ] # // /* or end of line
//          | text up to the end of the line       otherwise
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json_tree.h"

namespace fm::cli {

using core::JsonKind;
using core::JsonTree;

// "true", "5e8", "\"cpu\"", "[0.9, 0.95]", "{...}": for messages.
std::string show(const JsonTree& value);

// The number that a JSON number token stands for; nothing when `token` is not one.
std::optional<double> parse_number(std::string_view token);

// `name` stands for the text in messages ("llama.json"). UserError (10) names it with the line.
JsonTree parse_hjson(std::string_view text, const std::string& name);

struct ConfigText {
  std::string text;
  std::string name;  // for messages
};
// What DeepSpeed accepts as a configuration: the path of a file, url-safe base64 of the JSON text;
// also the JSON text itself, as accelerate does. UserError (10) otherwise.
ConfigText load_config_text(const std::string& path_or_text);

}  // namespace fm::cli
