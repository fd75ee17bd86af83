#include "text/tokenizer/sentencepiece_bpe.h"

#include <algorithm>
#include <map>

#include "core/check.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {

SentencePieceBpe::SentencePieceBpe(const SentencePieceModel& model) : model_(model) {
  TextMap<TokenId> ids;  // of pieces that merges make
  std::vector<std::pair<std::string, std::int32_t>> user_defined;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    FM_DATA_CHECK(piece.type != PieceType::kUnused, model.where,
                  ": unused pieces of a BPE model are not supported (", piece.text, ")");
    if (piece.type == PieceType::kNormal) ids[piece.text] = id;
    if (piece.type == PieceType::kUserDefined) user_defined.emplace_back(piece.text, id);
    const bool in_text = piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined;
    if (in_text && has_inner_meta_space(piece.text)) starts_words_ = false;
    const CodePoint first = code_point_at(piece.text, 0);
    if (piece.type != PieceType::kNormal || first.size != piece.text.size()) continue;
    if (first.value >= characters_.size()) characters_.resize(first.value + 1, kNoToken);
    characters_[first.value] = id;
  }
  user_defined_ = TextTrie(std::move(user_defined));
  if (!ids.contains(kMetaSpace)) starts_words_ = false;
  put_merges(ids);
}

void SentencePieceBpe::put_merges(const TextMap<TokenId>& ids) {
  std::map<float, std::uint32_t, std::greater<>> rank_of;
  for (const SentencePiece& piece : model_.pieces) rank_of[piece.score] = 0;
  std::uint32_t next = 0;
  for (auto& [score, rank] : rank_of) rank = next++;
  const auto symbol = [&](std::string_view text) {
    const auto found = ids.find(text);
    if (found != ids.end()) return found->second;
    const CodePoint first = code_point_at(text, 0);
    if (first.size < text.size()) return kNoToken;
    return kFirstCharacter + static_cast<TokenId>(first.value);
  };
  for (const auto& [text, id] : ids) {
    const std::uint32_t rank = rank_of[model_.pieces[static_cast<std::size_t>(id)].score];
    for (std::size_t at = code_point_at(text, 0).size; at < text.size();) {
      const TokenId left = symbol(std::string_view(text).substr(0, at));
      const TokenId right = symbol(std::string_view(text).substr(at));
      if (left != kNoToken && right != kNoToken) table_.put(left, right, {rank, id});
      at += code_point_at(text, at).size;
    }
  }
}

void SentencePieceBpe::encode(std::string_view text, WordSpace& space,
                              std::vector<TokenId>& ids) const {
  if (!starts_words_) return encode_part(text, space, ids);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = meta_word_end(text, at);
    encode_part(text.substr(at, end - at), space, ids);
    at = end;
  }
}

void SentencePieceBpe::encode_part(std::string_view part, WordSpace& space,
                                   std::vector<TokenId>& ids) const {
  const bool kept = starts_words_ && part.size() <= WordCache::kMostBytes;
  const WordCache::Key key = kept ? WordCache::key_of(part) : WordCache::Key();
  if (kept && space.cache.find(key, ids)) return;
  put_symbols(part, space.merging.ids);
  merge_all(table_, space.merging);
  const std::size_t before = ids.size();
  bool after_unknown = false;
  for (const TokenId symbol : space.merging.ids) {
    const bool unknown = symbol >= kFirstCharacter;
    if (unknown) {
      std::string character;
      append_utf8(character, static_cast<char32_t>(symbol - kFirstCharacter));
      put_unknown(character, after_unknown, ids);
    } else {
      ids.push_back(symbol);
    }
    after_unknown = unknown;
  }
  if (kept) space.cache.put(key, std::span(ids).subspan(before));
}

void SentencePieceBpe::put_symbols(std::string_view part, std::vector<TokenId>& symbols) const {
  symbols.clear();
  for (std::size_t at = 0; at < part.size();) {
    const TextTrie::Found found = user_defined_.longest(part.substr(at));
    if (found.size > 0) {
      symbols.push_back(found.value);
      at += found.size;
      continue;
    }
    const CodePoint point = code_point_at(part, at);
    const TokenId id = point.value < characters_.size() ? characters_[point.value] : kNoToken;
    symbols.push_back(id != kNoToken ? id : kFirstCharacter + static_cast<TokenId>(point.value));
    at += point.size;
  }
}

void SentencePieceBpe::put_unknown(std::string_view character, bool after_unknown,
                                   std::vector<TokenId>& ids) const {
  if (!model_.byte_fallback) {
    if (!after_unknown) ids.push_back(model_.unk_id);
    return;
  }
  for (const char byte : character) {
    ids.push_back(model_.byte_ids[static_cast<unsigned char>(byte)]);
  }
}

}  // namespace fm::tokenizer
