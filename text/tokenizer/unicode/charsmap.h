// SentencePiece's precompiled rules of normalisation: a double-array trie (darts-clone) over what
// is replaced, whose values are offsets into a text of replacements, each ended by a zero byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fm::tokenizer {

class Charsmap {
 public:
  Charsmap() = default;  // no rule
  // Layout: <u32 bytes of the trie> <trie> <replacements>. Throws UserError (11) with `where` when
  // it is cut or leads out of itself.
  Charsmap(std::string_view blob, const std::string& where);

  struct Rule {
    std::size_t size = 0;  // bytes that are replaced
    std::string_view replacement;
  };
  bool empty() const { return units_.empty(); }
  // The rule for the shortest or longest start of `text`.
  std::optional<Rule> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Rule> longest(std::string_view text) const { return find(text, false); }

 private:
  std::optional<Rule> find(std::string_view text, bool shortest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

// Throws UserError (11) with `where` when `text` is not base64.
std::string decode_base64(std::string_view text, const std::string& where);

// The next grapheme cluster of `text` at `at`: what users take for one character.
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace fm::tokenizer
