#include "tests/tidy/scopes.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace fm::tidy {

namespace {

enum class Brace : std::uint8_t { kScope, kFunction, kInitializer, kInner };

bool contains(std::span<const Token> tokens, std::string_view text) {
  return std::any_of(tokens.begin(), tokens.end(), [&](const Token& t) { return t.is(text); });
}

// Without a leading `public:` and without `template <...>`.
std::span<const Token> significant(std::span<const Token> statement) {
  while (
      statement.size() > 1 && statement[1].is(":") &&
      (statement[0].is("public") || statement[0].is("private") || statement[0].is("protected"))) {
    statement = statement.subspan(2);
  }
  if (statement.size() < 2 || !statement[0].is("template")) return statement;
  int depth = 0;
  for (std::size_t i = 1; i < statement.size(); ++i) {
    if (statement[i].is("<")) ++depth;
    if (statement[i].is(">") && --depth == 0) return statement.subspan(i + 1);
  }
  return statement;
}

// True for `Name(...) : member_` before its brace: one more member of a constructor's list.
bool in_member_list(std::span<const Token> statement) {
  int depth = 0;
  bool parameters_seen = false;
  bool list_seen = false;
  for (const Token& token : statement) {
    if (token.is("(")) ++depth;
    if (token.is(")") && --depth == 0) parameters_seen = true;
    if (token.is(":") && depth == 0 && parameters_seen) list_seen = true;
  }
  const std::string_view last = statement.back().text;
  return list_seen && last != ")" && last != "}";
}

// What the brace after `statement` opens, outside functions.
Brace classify(std::span<const Token> statement) {
  statement = significant(statement);
  if (statement.empty()) return Brace::kInitializer;
  const std::string_view last = statement.back().text;
  if (last == "=" || last == "," || last == "(") return Brace::kInitializer;
  const auto is_paren = [](const Token& t) { return t.is("("); };
  const auto open = std::find_if(statement.begin(), statement.end(), is_paren);
  const std::span<const Token> head(statement.begin(), open);
  if (contains(head, "namespace") || contains(head, "class") || contains(head, "struct") ||
      contains(head, "enum") || contains(head, "union")) {
    return Brace::kScope;
  }
  if (open == statement.end()) {
    return contains(head, "extern") ? Brace::kScope : Brace::kInitializer;
  }
  return in_member_list(statement) ? Brace::kInitializer : Brace::kFunction;
}

class ScopeWalk {
 public:
  explicit ScopeWalk(Source& source) : source_(source) {}

  void run() {
    for (std::size_t i = 0; i < source_.tokens.size(); ++i) {
      const Token& token = source_.tokens[i];
      if (token.is("{")) open(i);
      if (token.is("}") && !open_.empty()) close(i);
      if (token.is(";") && at_scope()) {
        source_.declarations.push_back({begin_, i});
        begin_ = i + 1;
      }
    }
  }

 private:
  bool at_scope() const { return open_.empty() || open_.back() == Brace::kScope; }

  std::span<const Token> statement(std::size_t end) const {
    return std::span(source_.tokens).subspan(begin_, end - begin_);
  }

  void open(std::size_t i) {
    const Brace kind = at_scope() ? classify(statement(i)) : Brace::kInner;
    open_.push_back(kind);
    if (kind == Brace::kScope) begin_ = i + 1;
  }

  void close(std::size_t i) {
    const Brace kind = open_.back();
    open_.pop_back();
    if (kind == Brace::kFunction) {
      const std::span<const Token> head = significant(statement(i));
      source_.functions.push_back({head.front().line, source_.tokens[i].line});
    }
    // A statement goes on after an initializer, and after the braces inside it.
    if (kind == Brace::kFunction || kind == Brace::kScope) begin_ = i + 1;
  }

  Source& source_;
  std::vector<Brace> open_;
  std::size_t begin_ = 0;  // first token of the current statement
};

}  // namespace

void find_scopes(Source& source) { ScopeWalk(source).run(); }

}  // namespace fm::tidy
