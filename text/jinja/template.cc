#include "text/jinja/template.h"

#include <algorithm>

#include "text/jinja/parser.h"

namespace fm::jinja {
namespace {

bool writes_generation(const Body& body) {
  return std::any_of(body.begin(), body.end(), [](const Statement& statement) {
    const bool in_branches =
        std::any_of(statement.branches.begin(), statement.branches.end(),
                    [](const Branch& branch) { return writes_generation(branch.body); });
    return statement.kind == StatementKind::kGeneration || in_branches ||
           writes_generation(statement.body) || writes_generation(statement.otherwise);
  });
}

bool is_word(char letter) {
  return letter == '_' || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

std::vector<std::string> words_of(std::string_view source) {
  std::vector<std::string> words;
  for (auto at = source.begin(); at != source.end();) {
    const auto begin = std::find_if(at, source.end(), is_word);
    at = std::find_if_not(begin, source.end(), is_word);
    if (begin != at) words.emplace_back(begin, at);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

}  // namespace

Template::Template(std::string_view source, std::string file)
    : file_(std::move(file)),
      words_(words_of(source)),
      body_(parse_template(source, file_)),
      has_generation_(writes_generation(body_)) {}

bool Template::mentions(std::string_view word) const {
  return std::binary_search(words_.begin(), words_.end(), word);
}

Rendered Template::render(const Entries& variables, std::time_t now) const {
  Interpreter interpreter(body_, now);
  try {
    return interpreter.render(variables);
  } catch (const Failure& failure) {
    throw core::UserError(core::ExitCode::kDataError,
                          core::concat(file_, ":", interpreter.line(), ": ", failure.what()));
  }
}

}  // namespace fm::jinja
