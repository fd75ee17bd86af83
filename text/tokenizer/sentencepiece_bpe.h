// SentencePiece's byte-pair encoding: two neighbours merge when their text is a piece, the highest
// score first, of equal scores the leftmost.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/merges.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/text_trie.h"

namespace fm::tokenizer {

// Thread: any, after it was made. Lifetime: `model` outlives it.
class SentencePieceBpe {
 public:
  explicit SentencePieceBpe(const SentencePieceModel& model);
  // Appends the ids of a normalised text.
  void encode(std::string_view text, WordSpace& space, std::vector<TokenId>& ids) const;

 private:
  // A character without a piece is a symbol, too: it may be part of a longer piece.
  static constexpr TokenId kFirstCharacter = static_cast<TokenId>(kMostIds);

  void put_merges(const TextMap<TokenId>& ids);
  void encode_part(std::string_view part, WordSpace& space, std::vector<TokenId>& ids) const;
  void put_symbols(std::string_view part, std::vector<TokenId>& symbols) const;
  void put_unknown(std::string_view character, bool after_unknown, std::vector<TokenId>& ids) const;

  const SentencePieceModel& model_;
  MergeTable table_;
  TextTrie user_defined_;            // never merged, never cut
  std::vector<TokenId> characters_;  // by code point
  bool starts_words_ = true;         // as Bpe's
};

}  // namespace fm::tokenizer
