// The tokens of a template, one at a time, for the two halves of the parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"

namespace fm::jinja {

class TokenCursor {
 public:
  TokenCursor(std::vector<Token> tokens, const std::string& file)
      : tokens_(std::move(tokens)), file_(file) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at(TokenKind kind, std::string_view text) const {
    return at(kind) && current().text == text;
  }
  bool at_symbol(std::string_view text) const { return at(TokenKind::kOperator, text); }
  bool at_name(std::string_view text) const { return at(TokenKind::kName, text); }

  Token take() {
    const Token& token = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take_symbol(std::string_view text) { return at_symbol(text) && (take(), true); }
  bool take_name(std::string_view text) { return at_name(text) && (take(), true); }
  void need_symbol(std::string_view text) {
    if (!take_symbol(text))
      refuse("\"", text, "\" is required here; correct the template (", describe(), ")");
  }
  std::string need_name() {
    if (!at(TokenKind::kName))
      refuse("a name is required here; correct the template (", describe(), ")");
    return take().text;
  }
  void need(TokenKind kind, std::string_view what) {
    if (!at(kind)) refuse(what, " is required here; correct the template (", describe(), ")");
    take();
  }

  // What stands here, for messages.
  std::string describe() const {
    switch (current().kind) {
      case TokenKind::kText: return "text";
      case TokenKind::kOutputBegin: return "{{";
      case TokenKind::kOutputEnd: return "}}";
      case TokenKind::kBlockBegin: return "{%";
      case TokenKind::kBlockEnd: return "%}";
      case TokenKind::kEnd: return "the end of the template";
      case TokenKind::kName:
      case TokenKind::kString:
      case TokenKind::kNumber:
      case TokenKind::kOperator: break;
    }
    return current().text;
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw core::UserError(core::ExitCode::kDataError,
                          core::concat(file_, ":", line(), ": ", parts...));
  }

 private:
  std::vector<Token> tokens_;
  std::string file_;
  std::size_t at_ = 0;
};

}  // namespace fm::jinja
