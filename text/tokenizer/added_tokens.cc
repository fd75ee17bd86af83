#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

bool word_before(std::string_view text, std::size_t at) {
  return at > 0 && is_word(code_point_before(text, at).value);
}

bool word_behind(std::string_view text, std::size_t at) {
  return at < text.size() && is_word(code_point_at(text, at).value);
}

std::size_t spaces_begin(std::string_view text, std::size_t end) {
  while (end > 0) {
    const CodePoint before = code_point_before(text, end);
    if (!is_space(before.value)) break;
    end -= before.size;
  }
  return end;
}

std::size_t spaces_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!is_space(point.value)) break;
    at += point.size;
  }
  return at;
}

}  // namespace

AddedToken read_added_token(const JsonTree& settings) {
  const bool special = settings.flag_or("special", false);
  return {.content = settings.at("content").string(),
          .single_word = settings.flag_or("single_word", false),
          .lstrip = settings.flag_or("lstrip", false),
          .rstrip = settings.flag_or("rstrip", false),
          .normalized = settings.flag_or("normalized", !special),
          .special = special};
}

AddedToken read_listed_token(const JsonTree& settings) {
  constexpr double kMost = 4294967295;  // the wheel has 32 bits for an id, and gives its own
  settings.at("id").count(kMost);
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    settings.at(key).flag();
  }
  return read_added_token(settings);
}

void AddedTokens::add(const std::vector<AddedToken>& tokens, const Vocabulary& model) {
  const auto model_size = static_cast<TokenId>(model.size());
  TokenId next = model_size;
  if (!tokens_.empty() && tokens_.rbegin()->first >= model_size) next = tokens_.rbegin()->first + 1;
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    TokenId id = id_of(token.content);
    if (id == kNoToken) id = model.find(token.content);
    if (id == kNoToken) id = next++;
    ids_[token.content] = id;
    if (token.special) special_[token.content] = true;
    tokens_[id] = token;
  }
}

void AddedTokens::finish(const std::vector<NormalizeStep>& normalizer) {
  std::vector<std::pair<std::string, std::int32_t>> plain;
  std::vector<std::pair<std::string, std::int32_t>> normalized;
  forms_.clear();
  for (const auto& [id, token] : tokens_) {
    if (in_text_ || !token.normalized) {
      plain.emplace_back(token.content, id);
      continue;
    }
    Normalizing at{.text = token.content, .scratch = "", .at_start = true};
    for (const NormalizeStep& step : normalizer) step(at);
    if (at.text != token.content) forms_[id] = at.text;
    normalized.emplace_back(at.text, id);
  }
  plain_ = TextTrie(std::move(plain));
  normalized_ = TextTrie(std::move(normalized));
}

void AddedTokens::find(std::string_view text, bool normalized, std::vector<TextPart>& parts) const {
  const TextTrie& trie = normalized ? normalized_ : plain_;
  parts.clear();
  std::size_t done = 0;  // where the next part begins
  std::size_t at = trie.next_start(text, 0);
  while (at < text.size()) {
    const TextTrie::Found found = trie.longest(text.substr(at));
    if (found.size == 0) {
      at = trie.next_start(text, at + 1);
      continue;
    }
    const std::size_t begin = at;
    const std::size_t end = at + found.size;
    at = trie.next_start(text, end);
    const AddedToken& token = tokens_.at(found.value);
    if (token.single_word && (word_before(text, begin) || word_behind(text, end))) continue;
    if (split_special_ && is_special(token.content)) continue;
    // Spaces that the token before has taken stay there.
    const TextPart part = with_spaces(text, {found.value, begin, end}, done);
    if (done < part.begin) parts.push_back({kNoToken, done, part.begin});
    if (part.begin < part.end) parts.push_back(part);  // else it was nothing but such spaces
    done = part.end;
  }
  if (done != text.size()) parts.push_back({kNoToken, done, text.size()});
}

TextPart AddedTokens::with_spaces(std::string_view text, TextPart stands, std::size_t from) const {
  const AddedToken* const added = token(stands.id);
  if (added == nullptr) return stands;
  if (added->lstrip) stands.begin = std::max(spaces_begin(text, stands.begin), from);
  if (added->rstrip) stands.end = spaces_end(text, stands.end);
  return stands;
}

TokenId AddedTokens::id_of(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? kNoToken : found->second;
}

const AddedToken* AddedTokens::token(TokenId id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::string& AddedTokens::decoded(TokenId id) const {
  const auto form = forms_.find(id);
  return form == forms_.end() ? tokens_.at(id).content : form->second;
}

}  // namespace fm::tokenizer
