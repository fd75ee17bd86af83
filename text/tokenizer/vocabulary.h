// Tokens and their ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fm::tokenizer {

using TokenId = std::int32_t;
inline constexpr TokenId kNoToken = -1;
inline constexpr std::int64_t kMostIds = 1 << 24;  // a larger id is a damaged file

// So that a map of strings is searched with views.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class Vocabulary {
 public:
  void reserve(std::size_t tokens) { ids_.reserve(tokens); }
  // A later id of the same token counts. Throws UserError (11) with `where` for an id outside
  // [0, kMostIds).
  void put(const std::string& token, std::int64_t id, const std::string& where);

  TokenId find(std::string_view token) const {  // kNoToken: not there
    const auto found = ids_.find(token);
    return found == ids_.end() ? kNoToken : found->second;
  }
  // "" for an id without a token.
  const std::string& token(TokenId id) const;
  bool has(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < there_.size() &&
           there_[static_cast<std::size_t>(id)];
  }
  // Tokens or ids, whichever are more: pieces of Unigram may be there twice, and count.
  std::size_t size() const { return std::max(ids_.size(), held_); }
  TokenId end_id() const { return static_cast<TokenId>(tokens_.size()); }  // above every id
  const TextMap<TokenId>& ids() const { return ids_; }

 private:
  TextMap<TokenId> ids_;
  std::vector<std::string> tokens_;  // by id
  std::vector<bool> there_;
  std::size_t held_ = 0;  // ids that are there
};

}  // namespace fm::tokenizer
