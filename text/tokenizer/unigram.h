// The model Unigram: the most probable way to cut a text into pieces (arXiv 1804.10959).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer/text_trie.h"
#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

// What one thread needs: the best way to every end.
struct UnigramSpace {
  struct End {
    double score = 0;
    std::int32_t begin = -1;  // of the last piece; -1: no way leads here yet
    TokenId id = kNoToken;
  };
  struct Step {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId id = kNoToken;
  };
  std::vector<End> ends;   // by place in the word
  std::vector<Step> path;  // the best way, from the last piece to the first
};

// Thread: any, after it was made.
class Unigram {
 public:
  // `lists.scores` are the pieces; `unk_id` kNoToken: none. Throws UserError (11) with `where`.
  Unigram(const std::vector<std::pair<std::string, double>>& pieces, TokenId unk_id,
          bool byte_fallback, const std::string& where);

  // Appends the ids of one word.
  void encode(std::string_view word, UnigramSpace& space, std::vector<TokenId>& ids) const;

 private:
  void find_path(std::string_view word, UnigramSpace& space) const;
  void put_unknown(std::string_view unknown, std::vector<TokenId>& ids) const;

  TextTrie trie_;
  std::vector<double> scores_;
  TokenId unk_id_;
  double unk_score_ = 0;
  bool byte_fallback_;
  TokenId bytes_[256];
  std::string where_;
};

}  // namespace fm::tokenizer
