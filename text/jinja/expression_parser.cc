#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

namespace fm::jinja {
namespace {

std::optional<Operator> sum_operator(const Token& token) {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  if (token.text == "+") return Operator::kAdd;
  if (token.text == "-") return Operator::kSubtract;
  return std::nullopt;
}

std::optional<Operator> product_operator(const Token& token) {
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  if (token.text == "*") return Operator::kMultiply;
  if (token.text == "/") return Operator::kDivide;
  if (token.text == "//") return Operator::kFloorDivide;
  if (token.text == "%") return Operator::kModulo;
  return std::nullopt;
}

}  // namespace

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMostNesting)
    parser_.tokens_.refuse("expressions may nest ", kMostNesting, " deep; simplify the template");
}

ExpressionParser::Node ExpressionParser::make(ExpressionKind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

void ExpressionParser::add(Node& node, ExpressionPtr part) const {
  if (part != nullptr) deepen(node, *part);
  node->parts.push_back(std::move(part));
}

void ExpressionParser::deepen(Node& node, const Expression& part) const {
  node->depth = std::max(node->depth, part.depth + 1);
  if (node->depth > kMostNesting)
    tokens_.refuse("expressions may nest ", kMostNesting, " deep; simplify the template");
}

ExpressionParser::Node ExpressionParser::join(ExpressionKind kind, int line, ExpressionPtr left,
                                              ExpressionPtr right) const {
  Node node = make(kind, line);
  add(node, std::move(left));
  add(node, std::move(right));
  return node;
}

ExpressionPtr ExpressionParser::expression() {
  const Nested nested(*this);
  const int line = tokens_.line();
  ExpressionPtr value = either();
  while (tokens_.take_name("if")) {
    Node node = make(ExpressionKind::kConditional, line);
    add(node, either());
    add(node, std::move(value));
    if (tokens_.take_name("else")) add(node, expression());
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::either() {
  ExpressionPtr left = both();
  while (tokens_.at_name("or")) {
    const int line = tokens_.take().line;
    left = join(ExpressionKind::kOr, line, std::move(left), both());
  }
  return left;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr left = negation();
  while (tokens_.at_name("and")) {
    const int line = tokens_.take().line;
    left = join(ExpressionKind::kAnd, line, std::move(left), negation());
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  if (!tokens_.at_name("not")) return comparison();
  const Nested nested(*this);
  Node node = make(ExpressionKind::kNot, tokens_.take().line);
  add(node, negation());
  return node;
}

bool ExpressionParser::read_comparison(Comparison& op) {
  constexpr std::pair<std::string_view, Comparison> kSymbols[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual},
  };
  for (const auto& [symbol, meant] : kSymbols) {
    if (!tokens_.take_symbol(symbol)) continue;
    op = meant;
    return true;
  }
  op = Comparison::kIn;
  if (tokens_.take_name("in")) return true;
  const Token& next = tokens_.next();
  if (!tokens_.at_name("not") || next.kind != TokenKind::kName || next.text != "in") return false;
  tokens_.take();
  tokens_.take();
  op = Comparison::kNotIn;
  return true;
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = tokens_.line();
  ExpressionPtr first = sum();
  Comparison op = Comparison::kEqual;
  if (!read_comparison(op)) return first;
  Node node = make(ExpressionKind::kCompare, line);
  add(node, std::move(first));
  do {
    node->comparisons.push_back(op);
    add(node, sum());
  } while (read_comparison(op));
  return node;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (const std::optional<Operator> op = sum_operator(tokens_.current())) {
    const int line = tokens_.take().line;
    Node node = join(ExpressionKind::kArithmetic, line, std::move(left), concatenation());
    node->operation = *op;
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  const int line = tokens_.line();
  ExpressionPtr first = product();
  if (!tokens_.at_symbol("~")) return first;
  Node node = make(ExpressionKind::kConcat, line);
  add(node, std::move(first));
  while (tokens_.take_symbol("~")) add(node, product());
  return node;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (const std::optional<Operator> op = product_operator(tokens_.current())) {
    const int line = tokens_.take().line;
    Node node = join(ExpressionKind::kArithmetic, line, std::move(left), power());
    node->operation = *op;
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (tokens_.at_symbol("**")) {
    const int line = tokens_.take().line;
    Node node = join(ExpressionKind::kArithmetic, line, std::move(left), unary(true));
    node->operation = Operator::kPower;
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Nested nested(*this);
  ExpressionPtr value;
  if (tokens_.at_symbol("-") || tokens_.at_symbol("+")) {
    const Token sign = tokens_.take();
    Node node = make(sign.text == "-" ? ExpressionKind::kNegate : ExpressionKind::kPlus, sign.line);
    add(node, unary(false));
    value = std::move(node);
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters(std::move(value)) : std::move(value);
}

}  // namespace fm::jinja
