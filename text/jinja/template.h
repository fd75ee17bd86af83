// A chat template: Jinja's language as transformers renders it.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/interpreter.h"
#include "text/jinja/tree.h"
#include "text/jinja/value.h"

namespace fm::jinja {

// Invariant: a parsed template; rendering does not change it.
// Thread:    any number may render at once.
// Lifetime:  owns what it was parsed from.
class Template {
 public:
  // `file` is for messages. Throws UserError (11) "FILE:LINE: ..." for what is no template, and for
  // what Jinja has and this subset has not.
  Template(std::string_view source, std::string file);

  // `now` is what strftime_now() prints. Throws UserError (11) "FILE:LINE: ..." where the template
  // refuses the variables, does what Python refuses, or takes more steps, text or depth than a
  // conversation needs.
  Rendered render(const Entries& variables, std::time_t now) const;

  // Whether it says itself, by {% generation %}, what the assistant writes.
  bool has_generation() const { return has_generation_; }
  // Whether a word stands anywhere in it. A field whose name does not is not read by name.
  bool mentions(std::string_view word) const;
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<std::string> words_;  // letters, digits and _ in a row; in order, each once
  Body body_;
  bool has_generation_;
};

// From tokens to a tree.

// Throws UserError (11) "FILE:LINE: ..." for what is no template and for what this subset has not:
// filters and tests that it does not know, include, import, extends, block, *arguments, ...
Body parse_template(std::string_view source, const std::string& file);

}  // namespace fm::jinja
