// Which bytes of a text its tokens stand for.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/interpreter.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::prepare {

// What a token's text begins and ends as in a text, for tokenizers of bytes (GPT-2's alphabet) and
// of pieces (SentencePiece's: a meta symbol for a space, <0x0A> for a byte).
//
// Thread:    any, several at once.
// Lifetime:  the tokenizer outlives it.
class TokenSpans {
 public:
  explicit TokenSpans(const tokenizer::Tokenizer& tokenizer);

  // By token: its bytes of `text`, which ids encode; in order. A token of the tokenizer's own, such
  // as BOS, has none. Spaces that the tokenizer has left out belong to no token, but those that an
  // added token takes are its own. nullopt: the text was changed before it was cut (normal forms,
  // lower case, unknown tokens).
  std::optional<std::vector<jinja::Span>> find(std::string_view text,
                                               std::span<const tokenizer::TokenId> ids) const;

 private:
  enum class TextUnit : std::uint8_t { kBytes, kPieces };
  std::optional<std::vector<jinja::Span>> find(std::string_view text,
                                               std::span<const tokenizer::TokenId> ids,
                                               const std::vector<std::string>& texts) const;

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> of_bytes_, of_pieces_;  // by id
};

}  // namespace fm::prepare
