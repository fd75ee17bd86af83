// The half of the parser that reads expressions, by jinja2's precedence.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/token_cursor.h"
#include "text/jinja/tree.h"

namespace fm::jinja {

// What a list of expressions without brackets ends with, besides the end of the tag.
enum class TupleEnd : std::uint8_t { kTag, kRecursive };

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenCursor& tokens) : tokens_(tokens) {}

  // One with `if`, or one without: a list in front of a loop's condition.
  ExpressionPtr expression();
  ExpressionPtr expression_without_if() { return either(); }
  // One, or several with commas: a tuple.
  ExpressionPtr tuple(bool with_if, TupleEnd ending = TupleEnd::kTag);
  // name|filter|filter of what a body has written; `with_first` where no '|' stands before it.
  ExpressionPtr filter_chain(bool with_first);

 private:
  using Node = std::unique_ptr<Expression>;

  Node make(ExpressionKind kind, int line) const;
  void add(Node& node, ExpressionPtr part) const;
  void deepen(Node& node, const Expression& part) const;
  Node join(ExpressionKind kind, int line, ExpressionPtr left, ExpressionPtr right) const;

  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr named_or_constant();
  ExpressionPtr text();
  ExpressionPtr in_brackets();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters(ExpressionPtr node);
  ExpressionPtr attribute(ExpressionPtr node);
  ExpressionPtr item(ExpressionPtr node);
  ExpressionPtr call(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr node);
  void arguments(Node& node);
  bool read_comparison(Comparison& op);
  bool ends_tuple(TupleEnd ending) const;

  // Counts how deep calls of the parser are, for kMostNesting.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser);
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

  TokenCursor& tokens_;
  int nesting_ = 0;
};

}  // namespace fm::jinja
