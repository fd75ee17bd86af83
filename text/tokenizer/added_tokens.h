// Tokens beside the model's: found in a text before it is cut, and never cut themselves.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/text_trie.h"
#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // spaces before it belong to it
  bool rstrip = false;       // spaces behind it belong to it
  bool normalized = true;    // looked for in the normalised text, in its own normalised form
  bool special = false;      // left out of decoded text on demand
  bool operator==(const AddedToken&) const = default;
};

AddedToken read_added_token(const JsonTree& settings);
// An item of "added_tokens" in a tokenizer.json, which must have every field, as in the wheel.
AddedToken read_listed_token(const JsonTree& settings);

// A part of a text: a token, or with id kNoToken what stands between two.
struct TextPart {
  TokenId id = kNoToken;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Invariant: every token has one id, its id in the model's vocabulary or one behind it.
// Thread:    any, after finish().
class AddedTokens {
 public:
  // As the wheel's add_tokens(): a token that is known keeps its id, others follow the last one.
  void add(const std::vector<AddedToken>& tokens, const Vocabulary& model);
  // All tokens are looked for in the text as it is.
  void look_in_text() { in_text_ = true; }
  // Text that spells a special token is no token: transformers' split_special_tokens.
  void split_special() { split_special_ = true; }
  // Makes what find() needs; `normalizer` is applied to normalized tokens.
  void finish(const std::vector<NormalizeStep>& normalizer);

  // Replaces `parts` by the parts of `text`; of nothing else in an empty text.
  void find(std::string_view text, bool normalized, std::vector<TextPart>& parts) const;
  bool any(bool normalized) const { return !(normalized ? normalized_ : plain_).empty(); }

  TokenId id_of(std::string_view content) const;
  // `stands` is where the content of a token stands in the text: with the spaces beside it that
  // belong to the token, of those before not in front of `from`. Other ids leave it as it is.
  TextPart with_spaces(std::string_view text, TextPart stands, std::size_t from) const;
  // Null for an id that is none of these tokens.
  const AddedToken* token(TokenId id) const;
  // What the decoder reads for it: its normalised form where it has one.
  const std::string& decoded(TokenId id) const;
  bool is_special(std::string_view content) const { return special_.contains(content); }
  const std::map<TokenId, AddedToken>& tokens() const { return tokens_; }

 private:
  std::map<TokenId, AddedToken> tokens_;
  std::map<TokenId, std::string> forms_;  // normalised, where it differs
  TextMap<TokenId> ids_;
  TextMap<bool> special_;
  TextTrie plain_;
  TextTrie normalized_;
  bool in_text_ = false;
  bool split_special_ = false;
};

}  // namespace fm::tokenizer
