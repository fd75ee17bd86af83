#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <optional>

#include "text/jinja/filters.h"
#include "text/jinja/tests.h"

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

// Operands: values, and what stands behind one.

ExpressionPtr ExpressionParser::primary() {
  if (tokens_.at(TokenKind::kName)) return named_or_constant();
  if (tokens_.at(TokenKind::kString)) return text();
  if (tokens_.at(TokenKind::kNumber)) {
    const Token number = tokens_.take();
    Node node = make(ExpressionKind::kConstant, number.line);
    node->constant = number.value;
    return node;
  }
  if (tokens_.at_symbol("(")) return in_brackets();
  if (tokens_.at_symbol("[")) return list();
  if (tokens_.at_symbol("{")) return dict();
  tokens_.refuse("an expression is required here; correct the template (", tokens_.describe(), ")");
}

ExpressionPtr ExpressionParser::named_or_constant() {
  const Token name = tokens_.take();
  Node node = make(ExpressionKind::kConstant, name.line);
  if (name.text == "true" || name.text == "True") {
    node->constant = true;
  } else if (name.text == "false" || name.text == "False") {
    node->constant = false;
  } else if (name.text == "none" || name.text == "None") {
    node->constant = None{};
  } else {
    node->kind = ExpressionKind::kName;
    node->text = name.text;
  }
  return node;
}

ExpressionPtr ExpressionParser::text() {
  Node node = make(ExpressionKind::kConstant, tokens_.line());
  std::string text;
  while (tokens_.at(TokenKind::kString)) text += tokens_.take().text;
  node->constant = std::move(text);
  return node;
}

bool ExpressionParser::ends_tuple(TupleEnd ending) const {
  return tokens_.at(TokenKind::kOutputEnd) || tokens_.at(TokenKind::kBlockEnd) ||
         tokens_.at_symbol(")") || (ending == TupleEnd::kRecursive && tokens_.at_name("recursive"));
}

ExpressionPtr ExpressionParser::tuple(bool with_if, TupleEnd ending) {
  Node node = make(ExpressionKind::kTuple, tokens_.line());
  bool has_comma = false;
  while (!ends_tuple(ending)) {
    add(node, with_if ? expression() : either());
    if (!tokens_.take_symbol(",")) break;
    has_comma = true;
  }
  if (has_comma) return node;
  if (node->parts.empty())
    tokens_.refuse("an expression is required here; correct the template (", tokens_.describe(),
                   ")");
  return std::move(node->parts[0]);
}

ExpressionPtr ExpressionParser::in_brackets() {
  const Nested nested(*this);
  const int line = tokens_.take().line;
  ExpressionPtr value = tokens_.at_symbol(")") ? make(ExpressionKind::kTuple, line) : tuple(true);
  tokens_.need_symbol(")");
  return value;
}

ExpressionPtr ExpressionParser::list() {
  Node node = make(ExpressionKind::kList, tokens_.take().line);
  while (!tokens_.at_symbol("]")) {
    add(node, expression());
    if (!tokens_.take_symbol(",")) break;
  }
  tokens_.need_symbol("]");
  return node;
}

ExpressionPtr ExpressionParser::dict() {
  Node node = make(ExpressionKind::kDict, tokens_.take().line);
  while (!tokens_.at_symbol("}")) {
    add(node, expression());
    tokens_.need_symbol(":");
    add(node, expression());
    if (!tokens_.take_symbol(",")) break;
  }
  tokens_.need_symbol("}");
  return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.at_symbol(".")) {
      node = attribute(std::move(node));
    } else if (tokens_.at_symbol("[")) {
      node = item(std::move(node));
    } else if (tokens_.at_symbol("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr node) {
  while (true) {
    if (tokens_.at_symbol("|")) {
      tokens_.take();
      node = filter(std::move(node));
    } else if (tokens_.at_name("is")) {
      node = test(std::move(node));
    } else if (tokens_.at_symbol("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr value) {
  const int line = tokens_.take().line;
  if (tokens_.at(TokenKind::kNumber) && tokens_.current().value.is<std::int64_t>()) {
    Node index = make(ExpressionKind::kConstant, line);
    index->constant = tokens_.take().value;
    return join(ExpressionKind::kItem, line, std::move(value), std::move(index));
  }
  Node node = make(ExpressionKind::kAttribute, line);
  add(node, std::move(value));
  node->text = tokens_.need_name();
  return node;
}

ExpressionPtr ExpressionParser::item(ExpressionPtr value) {
  Node node = make(ExpressionKind::kSlice, tokens_.take().line);
  add(node, std::move(value));
  const auto ends_bound = [&] { return tokens_.at_symbol(":") || tokens_.at_symbol("]"); };
  add(node, ends_bound() ? nullptr : expression());
  if (!tokens_.at_symbol(":")) {
    node->kind = ExpressionKind::kItem;
    if (node->parts[1] == nullptr || tokens_.at_symbol(","))
      tokens_.refuse("one item or one slice is required in [ ]; correct the template");
    tokens_.need_symbol("]");
    return node;
  }
  tokens_.take();
  add(node, ends_bound() ? nullptr : expression());
  const bool has_step = tokens_.take_symbol(":") && !tokens_.at_symbol("]");
  add(node, has_step ? expression() : nullptr);
  tokens_.need_symbol("]");
  return node;
}

void ExpressionParser::arguments(Node& node) {
  tokens_.need_symbol("(");
  while (!tokens_.at_symbol(")")) {
    if (tokens_.at_symbol("*") || tokens_.at_symbol("**"))
      tokens_.refuse("*arguments and **arguments are not supported; name them one by one");
    const Token& next = tokens_.next();
    if (tokens_.at(TokenKind::kName) && next.kind == TokenKind::kOperator && next.text == "=") {
      std::string name = tokens_.take().text;
      tokens_.take();
      ExpressionPtr value = expression();
      deepen(node, *value);
      node->named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!node->named.empty())
        tokens_.refuse("arguments with names must stand behind the others; move them");
      add(node, expression());
    }
    if (!tokens_.take_symbol(",")) break;
  }
  tokens_.need_symbol(")");
}

ExpressionPtr ExpressionParser::call(ExpressionPtr function) {
  Node node = make(ExpressionKind::kCall, tokens_.line());
  add(node, std::move(function));
  arguments(node);
  return node;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr value) {
  Node node = make(ExpressionKind::kFilter, tokens_.line());
  add(node, std::move(value));
  node->text = tokens_.need_name();
  if (!is_filter(node->text))
    tokens_.refuse("a filter must be one of ", filter_names(), "; rewrite the template (",
                   node->text, ")");
  if (tokens_.at_symbol("(")) arguments(node);
  return node;
}

ExpressionPtr ExpressionParser::filter_chain(bool with_first) {
  if (!with_first && !tokens_.at_symbol("|")) return nullptr;
  Node body = make(ExpressionKind::kName, tokens_.line());
  body->text = kBodyName;
  ExpressionPtr chain = std::move(body);
  if (with_first) chain = filter(std::move(chain));
  while (tokens_.take_symbol("|")) chain = filter(std::move(chain));
  return chain;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const int line = tokens_.take().line;
  const bool negated = tokens_.take_name("not");
  Node node = make(ExpressionKind::kTest, line);
  add(node, std::move(value));
  node->text = tokens_.need_name();
  if (!is_test(node->text))
    tokens_.refuse("a test must be one of ", test_names(), "; rewrite the template (", node->text,
                   ")");
  const bool ends = tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and");
  if (tokens_.at_symbol("(")) {
    arguments(node);
  } else if (!ends &&
             (tokens_.at(TokenKind::kName) || tokens_.at(TokenKind::kString) ||
              tokens_.at(TokenKind::kNumber) || tokens_.at_symbol("[") || tokens_.at_symbol("{"))) {
    if (tokens_.at_name("is")) tokens_.refuse("tests must be joined by and; correct the template");
    add(node, postfix(primary()));
  }
  if (!negated) return node;
  Node opposite = make(ExpressionKind::kNot, line);
  add(opposite, std::move(node));
  return opposite;
}

}  // namespace fm::jinja
