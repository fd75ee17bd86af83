#include "chat/template.h"

#include <algorithm>

#include "chat/parser.h"

namespace fm::chat {
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

}  // namespace

Template::Template(std::string_view source, std::string file)
    : file_(std::move(file)),
      body_(parse_template(source, file_)),
      has_generation_(writes_generation(body_)) {}

Rendered Template::render(const Entries& variables, std::time_t now) const {
  Interpreter interpreter(body_, now);
  try {
    return interpreter.render(variables);
  } catch (const Failure& failure) {
    throw core::UserError(core::ExitCode::kDataError,
                          core::concat(file_, ":", interpreter.line(), ": ", failure.what()));
  }
}

}  // namespace fm::chat
