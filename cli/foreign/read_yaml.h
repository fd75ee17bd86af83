// YAML 1.1 by libyaml, with the plain scalars of PyYAML, which Hugging Face's parsers, axolotl and
// LLaMA-Factory read their files with: `yes` and `off` are booleans, 010 is 8, 1_000 is 1000, and
// 1e-5, which has no point, is a text, which the flag reads as the number that it is.
#pragma once

#include <string>

#include "core/json_tree.h"

namespace fm::cli {

// One document, with anchors. Every value knows its line; the text of a boolean is as written, that
// of an integer decimal. `name` stands for the text in messages. Throws UserError (10) with name
// and line: what is no YAML, a key twice, a key that is no scalar, tags, "<<".
core::JsonTree read_yaml(const std::string& text, const std::string& name);

}  // namespace fm::cli
