// The model BPE of tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/merges.h"
#include "text/tokenizer/tokenizer_file.h"
#include "text/tokenizer/vocabulary.h"
#include "text/tokenizer/word_cache.h"

namespace fm::tokenizer {

// What one thread needs to encode words.
struct WordSpace {
  MergeSpace merging;
  WordCache cache;
};

struct BpeOptions {
  std::string unk_token;  // "": what is unknown is left out
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

// Thread: any, after it was made; a WordSpace belongs to one thread.
class Bpe {
 public:
  // `lists` of the file whose messages start with `where`. `vocabulary` outlives it.
  Bpe(const Vocabulary& vocabulary, BpeOptions options, const ModelLists& lists,
      const std::string& where);

  // Pieces may come as bytes instead of the characters that ByteLevel makes of them.
  bool may_read_bytes() const;
  void read_bytes();

  // Appends the ids of one word.
  void encode(std::string_view word, WordSpace& space, std::vector<TokenId>& ids) const;

 private:
  void put_merges(const ModelLists& lists, const std::string& where);
  void find_characters();
  void encode_part(std::string_view part, WordSpace& space, std::vector<TokenId>& ids) const;
  void encode_new(std::string_view part, MergeSpace& space) const;
  void put_symbols(std::string_view word, std::vector<TokenId>& symbols) const;
  void put_characters(std::string_view word, std::vector<TokenId>& symbols) const;
  void put_unknown(std::vector<TokenId>& symbols) const;
  TokenId character_id(char32_t value) const;
  bool put_byte_tokens(std::string_view character, std::vector<TokenId>& symbols) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  std::string where_;
  MergeTable table_;
  TokenId unk_ = kNoToken;
  bool refuses_unknown_ = false;     // unk_token is named and not there
  TokenId bytes_[256];               // of the tokens <0x00>.. or, of bytes, of their characters
  std::vector<TokenId> characters_;  // by code point, as far as the vocabulary has some
  TextMap<TokenId> byte_words_;      // the vocabulary's tokens as bytes, for ignore_merges
  bool reads_bytes_ = false;
  // U+2581 begins a word: no token has it behind another character, so that no merge can cross that
  // place. Words are short and repeat: 3.8 times as fast with Llama 2's kind of file.
  bool starts_words_ = false;
};

// Reads options of settings `model`. Throws UserError (11) for dropout.
BpeOptions read_bpe_options(const JsonTree& model);

// The end of the word at `at` where U+2581 begins words, as between words of SentencePiece.
std::size_t meta_word_end(std::string_view text, std::size_t at);
// Whether U+2581 stands behind another character in `token`.
bool has_inner_meta_space(std::string_view token);

}  // namespace fm::tokenizer
