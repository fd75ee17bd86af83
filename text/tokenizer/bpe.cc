#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <cstdio>

#include "core/check.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

std::string byte_token(int byte) {
  char text[16];
  std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
  return text;
}

// The bytes that a token stands for; false: some character stands for none.
bool bytes_of(std::string_view token, std::string& bytes) {
  bytes.clear();
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = code_point_at(token, at);
    const int byte = character_byte(point.value);
    if (byte < 0) return false;
    bytes += static_cast<char>(byte);
    at += point.size;
  }
  return true;
}

}  // namespace

BpeOptions read_bpe_options(const JsonTree& model) {
  if (const JsonTree* dropout = model.find("dropout"); dropout != nullptr) {
    if (dropout->real() != 0) dropout->refuse("dropout is not supported; set it to null");
  }
  return {.unk_token = model.string_or("unk_token", ""),
          .continuing_subword_prefix = model.string_or("continuing_subword_prefix", ""),
          .end_of_word_suffix = model.string_or("end_of_word_suffix", ""),
          .fuse_unk = model.flag_or("fuse_unk", false),
          .byte_fallback = model.flag_or("byte_fallback", false),
          .ignore_merges = model.flag_or("ignore_merges", false)};
}

bool has_inner_meta_space(std::string_view token) {
  const std::size_t first = meta_word_end(token, 0);
  return first < token.size();
}

std::size_t meta_word_end(std::string_view text, std::size_t at) {
  while (text.substr(at).starts_with(kMetaSpace)) at += kMetaSpace.size();
  const std::size_t end = text.find(kMetaSpace, at);
  return end == std::string_view::npos ? text.size() : end;
}

Bpe::Bpe(const Vocabulary& vocabulary, BpeOptions options, const ModelLists& lists,
         const std::string& where)
    : vocabulary_(vocabulary), options_(std::move(options)), where_(where) {
  if (!options_.unk_token.empty()) {
    unk_ = vocabulary_.find(options_.unk_token);
    refuses_unknown_ = unk_ == kNoToken;
  }
  for (int byte = 0; byte < 256; ++byte) bytes_[byte] = vocabulary_.find(byte_token(byte));
  find_characters();
  put_merges(lists, where);
}

void Bpe::put_merges(const ModelLists& lists, const std::string& where) {
  table_.reserve(lists.merges.size());
  starts_words_ = !options_.ignore_merges && options_.continuing_subword_prefix.empty() &&
                  options_.end_of_word_suffix.empty() && vocabulary_.find(kMetaSpace) != kNoToken;
  const std::size_t prefix = options_.continuing_subword_prefix.size();
  std::uint32_t rank = 0;
  std::string product;
  for (const auto& [left, right] : lists.merges) {
    FM_DATA_CHECK(right.size() >= prefix, where, ": merge ", rank,
                  " must continue with the continuing_subword_prefix; correct the file (", left,
                  " ", right, ")");
    product = left;
    product.append(right, prefix);
    const TokenId ids[] = {vocabulary_.find(left), vocabulary_.find(right),
                           vocabulary_.find(product)};
    FM_DATA_CHECK(std::count(std::begin(ids), std::end(ids), kNoToken) == 0, where, ": merge ",
                  rank, " and its product must be in the vocabulary; correct the file (", left, " ",
                  right, ")");
    table_.put(ids[0], ids[1], {rank++, ids[2]});
    if (has_inner_meta_space(product)) starts_words_ = false;
  }
}

void Bpe::find_characters() {
  for (const auto& [token, id] : vocabulary_.ids()) {
    if (token.empty() || token.size() > 4) continue;
    const CodePoint point = code_point_at(token, 0);
    if (point.size != token.size()) continue;
    if (point.value >= characters_.size()) characters_.resize(point.value + 1, kNoToken);
    characters_[point.value] = id;
  }
}

bool Bpe::may_read_bytes() const {
  return options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty() &&
         !options_.byte_fallback;
}

void Bpe::read_bytes() {
  reads_bytes_ = true;
  starts_words_ = false;
  for (int byte = 0; byte < 256; ++byte) {
    bytes_[byte] = character_id(byte_character(static_cast<unsigned char>(byte)));
  }
  if (!options_.ignore_merges) return;
  std::string bytes;
  byte_words_.reserve(vocabulary_.size());
  for (const auto& [token, id] : vocabulary_.ids()) {
    if (bytes_of(token, bytes)) byte_words_.emplace(bytes, id);
  }
}

void Bpe::encode(std::string_view word, WordSpace& space, std::vector<TokenId>& ids) const {
  if (!starts_words_) return encode_part(word, space, ids);
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = meta_word_end(word, at);
    encode_part(word.substr(at, end - at), space, ids);
    at = end;
  }
}

void Bpe::encode_part(std::string_view part, WordSpace& space, std::vector<TokenId>& ids) const {
  if (part.size() > WordCache::kMostBytes) {
    encode_new(part, space.merging);
    ids.insert(ids.end(), space.merging.ids.begin(), space.merging.ids.end());
    return;
  }
  const WordCache::Key key = WordCache::key_of(part);
  if (space.cache.find(key, ids)) return;
  encode_new(part, space.merging);
  space.cache.put(key, space.merging.ids);
  ids.insert(ids.end(), space.merging.ids.begin(), space.merging.ids.end());
}

void Bpe::encode_new(std::string_view part, MergeSpace& space) const {
  space.ids.clear();
  if (options_.ignore_merges) {
    TokenId whole = kNoToken;
    if (reads_bytes_) {
      const auto found = byte_words_.find(part);
      if (found != byte_words_.end()) whole = found->second;
    } else {
      whole = vocabulary_.find(part);
    }
    if (whole != kNoToken) return space.ids.push_back(whole);
  }
  put_symbols(part, space.ids);
  merge_all(table_, space);
}

void Bpe::put_symbols(std::string_view word, std::vector<TokenId>& symbols) const {
  if (!reads_bytes_) return put_characters(word, symbols);
  bool after_unknown = false;
  for (const char byte : word) {
    const TokenId id = bytes_[static_cast<unsigned char>(byte)];
    const bool fused = id == kNoToken && after_unknown && options_.fuse_unk;
    if (id != kNoToken) symbols.push_back(id);
    if (id == kNoToken && !fused) put_unknown(symbols);
    after_unknown = id == kNoToken;
  }
}

void Bpe::put_unknown(std::vector<TokenId>& symbols) const {
  FM_DATA_CHECK(!refuses_unknown_, where_,
                ": unk_token must be in the vocabulary, because a text has ",
                "an unknown character; correct the file (", options_.unk_token, ")");
  if (unk_ != kNoToken) symbols.push_back(unk_);
}

TokenId Bpe::character_id(char32_t value) const {
  return value < characters_.size() ? characters_[value] : kNoToken;
}

bool Bpe::put_byte_tokens(std::string_view character, std::vector<TokenId>& symbols) const {
  const auto missing = [this](char byte) {
    return bytes_[static_cast<unsigned char>(byte)] == kNoToken;
  };
  if (std::any_of(character.begin(), character.end(), missing)) return false;
  for (const char byte : character) symbols.push_back(bytes_[static_cast<unsigned char>(byte)]);
  return true;
}

void Bpe::put_characters(std::string_view word, std::vector<TokenId>& symbols) const {
  const bool decorated =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  std::string changed;
  // An unknown character waits until a known one comes, so that the next may be fused with it; byte
  // tokens go before it, as in the wheel.
  bool waits = false;
  for (std::size_t at = 0; at < word.size();) {
    const CodePoint point = code_point_at(word, at);
    std::string_view character = word.substr(at, point.size);
    TokenId id = kNoToken;
    if (decorated) {
      changed = at > 0 ? options_.continuing_subword_prefix : "";
      changed += character;
      if (at + point.size == word.size()) changed += options_.end_of_word_suffix;
      character = changed;
      id = vocabulary_.find(character);
    } else {
      id = character_id(point.value);
    }
    at += point.size;
    if (id != kNoToken) {
      if (waits) put_unknown(symbols);
      waits = false;
      symbols.push_back(id);
      continue;
    }
    if (options_.byte_fallback && put_byte_tokens(character, symbols)) continue;
    if (waits && !options_.fuse_unk) put_unknown(symbols);
    waits = true;
  }
  if (waits) put_unknown(symbols);
}

}  // namespace fm::tokenizer
