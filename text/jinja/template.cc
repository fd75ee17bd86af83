#include "text/jinja/template.h"

#include <algorithm>
#include <array>

#include "text/jinja/expression_parser.h"
#include "text/jinja/token_cursor.h"

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

constexpr int kMostBlocks = 100;  // inside each other

class Parser {
 public:
  Parser(std::string_view source, const std::string& file)
      : tokens_(read_tokens(source, file), file), expressions_(tokens_) {}

  Body parse() {
    Body body = read_body({});
    if (!tokens_.at(TokenKind::kEnd))
      tokens_.refuse("a block must be begun before its end; correct the template (",
                     tokens_.describe(), ")");
    return body;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Statements up to a tag that begins with one of `ends`, whose name is next then.
  Body read_body(Ends ends) {
    Body body;
    while (!tokens_.at(TokenKind::kEnd)) {
      if (tokens_.at(TokenKind::kText)) {
        body.push_back({.kind = StatementKind::kText, .line = tokens_.line()});
        body.back().text = tokens_.take().text;
      } else if (tokens_.at(TokenKind::kOutputBegin)) {
        body.push_back({.kind = StatementKind::kOutput, .line = tokens_.take().line});
        body.back().value = expressions_.tuple(true);
        tokens_.need(TokenKind::kOutputEnd, "}}");
      } else {
        tokens_.need(TokenKind::kBlockBegin, "{%");
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view end) { return tokens_.at_name(end); }))
          return body;
        body.push_back(read_statement());
        tokens_.need(TokenKind::kBlockEnd, "%}");
      }
    }
    if (ends.size() > 0)
      tokens_.refuse("a block must have its end; add {% ", *(ends.end() - 1), " %}");
    return body;
  }

  // A block's body with the end of its first tag; the name that ends it is next.
  Body read_block(Ends ends) {
    tokens_.take_symbol(":");
    tokens_.need(TokenKind::kBlockEnd, "%}");
    if (++blocks_ > kMostBlocks) tokens_.refuse("blocks may nest ", kMostBlocks, " deep");
    Body body = read_body(ends);
    --blocks_;
    return body;
  }
  Body read_whole_block(std::string_view end) {
    Body body = read_block({end});
    tokens_.take();
    return body;
  }

  Statement read_statement() {
    struct Row {
      std::string_view name;
      void (Parser::*read)(Statement& statement);
    };
    constexpr Row kRows[] = {
        {"break", &Parser::read_break},
        {"call", &Parser::read_call},
        {"continue", &Parser::read_continue},
        {"filter", &Parser::read_filter},
        {"for", &Parser::read_for},
        {"generation", &Parser::read_generation},
        {"if", &Parser::read_if},
        {"macro", &Parser::read_macro},
        {"set", &Parser::read_set},
        {"with", &Parser::read_with},
    };
    Statement statement{.line = tokens_.line()};
    const std::string name = tokens_.at(TokenKind::kName) ? tokens_.current().text : "";
    for (const Row& row : kRows) {
      if (row.name != name) continue;
      tokens_.take();
      (this->*row.read)(statement);
      return statement;
    }
    tokens_.refuse("a block must be one of break, call, continue, filter, for, generation, if, ",
                   "macro, set, with, raw; rewrite the template (", tokens_.describe(), ")");
  }

  void read_break(Statement& statement) { leave_loop(statement, StatementKind::kBreak); }
  void read_continue(Statement& statement) { leave_loop(statement, StatementKind::kContinue); }
  void leave_loop(Statement& statement, StatementKind kind) {
    if (loops_ == 0) tokens_.refuse("break and continue must stand in a loop; move them");
    statement.kind = kind;
  }

  // Loops around a body that is rendered on its own, as a macro's, cannot be left from it.
  Body read_inner(std::string_view end) {
    const int outside = std::exchange(loops_, 0);
    Body body = read_whole_block(end);
    loops_ = outside;
    return body;
  }

  void read_if(Statement& statement) {
    statement.kind = StatementKind::kIf;
    while (true) {
      ExpressionPtr condition = expressions_.tuple(false);
      Body body = read_block({"elif", "else", "endif"});
      statement.branches.push_back({std::move(condition), std::move(body)});
      const std::string end = tokens_.take().text;
      if (end == "elif") continue;
      if (end == "else") statement.branches.push_back({nullptr, read_whole_block("endif")});
      return;
    }
  }

  void read_for(Statement& statement) {
    statement.kind = StatementKind::kFor;
    statement.target = read_target(Attributes::kRefused, "in");
    if (!tokens_.take_name("in")) tokens_.refuse("\"in\" is required in a loop; add it");
    statement.value = expressions_.tuple(false, TupleEnd::kRecursive);
    if (tokens_.take_name("if")) statement.condition = expressions_.expression();
    if (tokens_.at_name("recursive"))
      tokens_.refuse("recursive loops are not supported; use a macro");
    ++loops_;
    statement.body = read_block({"else", "endfor"});
    --loops_;
    if (tokens_.take().text == "else") statement.otherwise = read_whole_block("endfor");
  }

  void read_set(Statement& statement) {
    statement.target = read_target(Attributes::kAllowed, "=");
    if (tokens_.take_symbol("=")) {
      statement.kind = StatementKind::kSet;
      statement.value = expressions_.tuple(true);
      return;
    }
    statement.kind = StatementKind::kSetBlock;
    statement.value = expressions_.filter_chain(false);
    statement.body = read_inner("endset");
  }

  void read_macro(Statement& statement) {
    statement.kind = StatementKind::kMacro;
    statement.text = tokens_.need_name();
    read_parameters(statement);
    statement.body = read_inner("endmacro");
  }

  void read_call(Statement& statement) {
    statement.kind = StatementKind::kCall;
    if (tokens_.at_symbol("(")) read_parameters(statement);
    statement.value = expressions_.expression();
    if (statement.value->kind != ExpressionKind::kCall)
      tokens_.refuse("a call block must call a macro; correct the template");
    statement.body = read_inner("endcall");
  }

  void read_filter(Statement& statement) {
    statement.kind = StatementKind::kFilterBlock;
    statement.value = expressions_.filter_chain(true);
    statement.body = read_inner("endfilter");
  }

  void read_generation(Statement& statement) {
    statement.kind = StatementKind::kGeneration;
    statement.body = read_inner("endgeneration");
  }

  void read_with(Statement& statement) {
    statement.kind = StatementKind::kWith;
    while (!tokens_.at(TokenKind::kBlockEnd)) {
      if (!statement.assignments.empty()) tokens_.need_symbol(",");
      Target target = read_target(Attributes::kRefused, "=");
      tokens_.need_symbol("=");
      statement.assignments.emplace_back(std::move(target), expressions_.expression());
    }
    statement.body = read_whole_block("endwith");
  }

  void read_parameters(Statement& statement) {
    tokens_.need_symbol("(");
    while (!tokens_.at_symbol(")")) {
      if (!statement.parameters.empty()) tokens_.need_symbol(",");
      Parameter parameter{assignable(tokens_.need_name()), nullptr};
      if (tokens_.take_symbol("=")) {
        parameter.otherwise = expressions_.expression();
      } else if (!statement.parameters.empty() &&
                 statement.parameters.back().otherwise != nullptr) {
        tokens_.refuse("parameters with defaults must stand behind the others; move them");
      }
      statement.parameters.push_back(std::move(parameter));
    }
    tokens_.take();
  }

  enum class Attributes : std::uint8_t { kAllowed, kRefused };

  // One target, or several with commas, up to `end`.
  Target read_target(Attributes attributes, std::string_view end) {
    Target tuple{.is_tuple = true};
    bool has_comma = false;
    while (!tokens_.at_symbol(end) && !tokens_.at_name(end) && !tokens_.at_symbol(")")) {
      tuple.parts.push_back(read_one_target(attributes));
      if (!tokens_.take_symbol(",")) break;
      has_comma = true;
    }
    if (tuple.parts.empty()) tokens_.refuse("a name to assign to is required; add it");
    return has_comma ? tuple : tuple.parts[0];
  }

  Target read_one_target(Attributes attributes) {
    if (tokens_.take_symbol("(")) {
      if (++blocks_ > kMostBlocks) tokens_.refuse("targets may nest ", kMostBlocks, " deep");
      Target target = read_target(attributes, ")");
      --blocks_;
      tokens_.need_symbol(")");
      return target;
    }
    Target target{.name = assignable(tokens_.need_name())};
    if (attributes == Attributes::kAllowed && tokens_.take_symbol("."))
      target.attribute = tokens_.need_name();
    return target;
  }

  std::string assignable(std::string name) {
    constexpr std::array<std::string_view, 7> kTaken = {"true",  "false", "none", "True",
                                                        "False", "None",  "loop"};
    if (std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end())
      tokens_.refuse("this name cannot be assigned to; use another (", name, ")");
    return name;
  }

  TokenCursor tokens_;
  ExpressionParser expressions_;
  int blocks_ = 0;
  int loops_ = 0;
};

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

Body parse_template(std::string_view source, const std::string& file) {
  return Parser(source, file).parse();
}

}  // namespace fm::jinja
