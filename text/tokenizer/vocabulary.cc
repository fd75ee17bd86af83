#include "text/tokenizer/vocabulary.h"

#include "core/check.h"

namespace fm::tokenizer {

void Vocabulary::put(const std::string& token, std::int64_t id, const std::string& where) {
  FM_DATA_CHECK(id >= 0 && id < kMostIds, where, ": ids must be in [0, ", kMostIds,
                "); correct the file (", token, ": ", id, ")");
  const auto at = static_cast<std::size_t>(id);
  ids_[token] = static_cast<TokenId>(id);
  if (at >= tokens_.size()) {
    tokens_.resize(at + 1);
    there_.resize(at + 1);
  }
  if (!there_[at]) ++held_;
  tokens_[at] = token;
  there_[at] = true;
}

const std::string& Vocabulary::token(TokenId id) const {
  static const std::string none;
  return has(id) ? tokens_[static_cast<std::size_t>(id)] : none;
}

}  // namespace fm::tokenizer
