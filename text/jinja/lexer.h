// The tokens of a Jinja template, cut as jinja2's lexer cuts with trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace fm::jinja {

enum class TokenKind : std::uint8_t {
  kText,         // outside of tags
  kOutputBegin,  // {{
  kOutputEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,
  kNumber,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // of a string: what it means
  Value value;       // of a number
};

// Throws UserError (11) "FILE:LINE: ..." for what is no template.
std::vector<Token> read_tokens(std::string_view source, const std::string& file);

}  // namespace fm::jinja
