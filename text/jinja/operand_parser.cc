// The operands of expressions: values, and what stands behind one.
#include "text/jinja/expression_parser.h"
#include "text/jinja/filters.h"

namespace fm::jinja {

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
