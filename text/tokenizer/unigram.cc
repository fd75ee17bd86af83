#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/check.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

constexpr double kUnkPenalty = 10;

}  // namespace

Unigram::Unigram(const std::vector<std::pair<std::string, double>>& pieces, TokenId unk_id,
                 bool byte_fallback, const std::string& where)
    : unk_id_(unk_id), byte_fallback_(byte_fallback), where_(where) {
  FM_DATA_CHECK(!pieces.empty(), where, ": model.vocab must have pieces; correct the file");
  FM_DATA_CHECK(unk_id == kNoToken || static_cast<std::size_t>(unk_id) < pieces.size(), where,
                ": unk_id must be an id of the vocabulary; correct the file (", unk_id, " of ",
                pieces.size(), ")");
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string, std::int32_t>> texts;
  std::fill(std::begin(bytes_), std::end(bytes_), kNoToken);
  for (const auto& [piece, score] : pieces) {
    const auto id = static_cast<TokenId>(texts.size());
    texts.emplace_back(piece, id);
    scores_.push_back(score);
    least = std::min(least, score);
    unsigned byte = 0;
    char end = '\0';
    if (piece.size() == 6 && std::sscanf(piece.c_str(), "<0x%2X%c", &byte, &end) == 2 &&
        end == '>') {
      bytes_[byte] = id;
    }
  }
  unk_score_ = least - kUnkPenalty;
  trie_ = TextTrie(std::move(texts));
}

void Unigram::find_path(std::string_view word, UnigramSpace& space) const {
  std::vector<UnigramSpace::End>& ends = space.ends;
  ends.assign(word.size() + 1, {});
  for (std::size_t begin = 0; begin < word.size();) {
    const double so_far = ends[begin].score;
    const std::size_t character = code_point_at(word, begin).size;
    const auto offer = [&](std::size_t size, TokenId id, double score) {
      UnigramSpace::End& end = ends[begin + size];
      if (end.begin >= 0 && !(so_far + score > end.score)) return;
      end = {so_far + score, static_cast<std::int32_t>(begin), id};
    };
    bool has_character = false;
    trie_.find_all(word.substr(begin), [&](std::size_t size, std::int32_t id) {
      offer(size, id, scores_[static_cast<std::size_t>(id)]);
      has_character = has_character || size == character;
    });
    if (!has_character) {
      FM_DATA_CHECK(unk_id_ != kNoToken, where_,
                    ": unk_id is required, because a text has an unknown character; add it");
      offer(character, unk_id_, unk_score_);
    }
    begin += character;
  }
  space.path.clear();
  for (std::size_t end = word.size(); end > 0; end = space.path.back().begin) {
    space.path.push_back({static_cast<std::size_t>(ends[end].begin), end, ends[end].id});
  }
}

void Unigram::encode(std::string_view word, UnigramSpace& space, std::vector<TokenId>& ids) const {
  if (word.empty()) return;
  find_path(word, space);
  while (!space.path.empty()) {
    UnigramSpace::Step step = space.path.back();
    space.path.pop_back();
    if (step.id != unk_id_) {
      ids.push_back(step.id);
      continue;
    }
    while (!space.path.empty() && space.path.back().id == unk_id_) {  // fused
      step.end = space.path.back().end;
      space.path.pop_back();
    }
    put_unknown(word.substr(step.begin, step.end - step.begin), ids);
  }
}

void Unigram::put_unknown(std::string_view unknown, std::vector<TokenId>& ids) const {
  // The text of unknown characters may be the unknown piece itself, or in the vocabulary by chance.
  const TextTrie::Found whole = trie_.longest(unknown);
  if (whole.size == unknown.size()) return ids.push_back(whole.value);
  const auto missing = [this](char byte) {
    return bytes_[static_cast<unsigned char>(byte)] == kNoToken;
  };
  if (!byte_fallback_ || std::any_of(unknown.begin(), unknown.end(), missing)) {
    return ids.push_back(unk_id_);
  }
  for (const char byte : unknown) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
}

}  // namespace fm::tokenizer
