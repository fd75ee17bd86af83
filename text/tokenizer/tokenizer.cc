#include "text/tokenizer/tokenizer.h"

#include "core/text.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

// A piece of input between added tokens: normalised, searched once more, cut, encoded.
void encode_gap(const TokenizerParts& parts, std::string_view text, bool at_start, Workspace& space,
                std::vector<TokenId>& ids) {
  Normalizing& at = space.normalizing;
  if (!parts.normalizer.empty()) {
    at.text = text;
    at.at_start = at_start;
    for (const NormalizeStep& step : parts.normalizer) step(at);
    text = at.text;
    at_start = at.at_start;
    if (text.empty()) return;  // no pre-tokenizer puts anything before nothing
  }
  space.inner_parts.assign(1, {kNoToken, 0, text.size()});
  if (parts.added.any(true)) parts.added.find(text, true, space.inner_parts);
  for (const TextPart& part : space.inner_parts) {
    if (part.id != kNoToken) {
      ids.push_back(part.id);
      continue;
    }
    const std::string_view inner = text.substr(part.begin, part.end - part.begin);
    space.pieces.start(inner, at_start && part.begin == 0);
    for (const SplitStep& step : parts.pre_tokenizer) step(space.pieces);
    for (const Piece& piece : space.pieces.now) parts.model(piece.text, space, ids);
  }
}

void encode_text(const TokenizerParts& parts, std::string_view text, Workspace& space,
                 std::vector<TokenId>& ids) {
  space.parts.assign(1, {kNoToken, 0, text.size()});
  if (parts.added.any(false)) parts.added.find(text, false, space.parts);
  for (const TextPart& part : space.parts) {
    if (part.id != kNoToken) {
      ids.push_back(part.id);
    } else if (part.begin < part.end) {
      encode_gap(parts, text.substr(part.begin, part.end - part.begin), part.begin == 0, space,
                 ids);
    }
  }
}

// After a text of many megabytes, whose buffers nobody needs again.
bool has_grown(const Workspace& space) {
  constexpr std::size_t kPieces = std::size_t{1} << 18;
  constexpr std::size_t kBytes = std::size_t{1} << 22;
  return space.pieces.now.capacity() > kPieces || space.pieces.next.capacity() > kPieces ||
         space.normalizing.text.capacity() > kBytes || space.unigram.ends.capacity() > kPieces ||
         space.words.merging.linked.capacity() > kPieces;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

Tokenizer::~Tokenizer() = default;

std::unique_ptr<Workspace> Tokenizer::borrow() const {
  {
    const std::lock_guard lock(mutex_);
    if (!spaces_.empty()) {
      std::unique_ptr<Workspace> space = std::move(spaces_.back());
      spaces_.pop_back();
      return space;
    }
  }
  return std::make_unique<Workspace>();
}

void Tokenizer::give_back(std::unique_ptr<Workspace> space) const {
  if (has_grown(*space)) return;
  const std::lock_guard lock(mutex_);
  spaces_.push_back(std::move(space));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<TokenId> ids;
  encode(text, special, ids);
  return ids;
}

void Tokenizer::encode(std::string_view text, SpecialTokens special,
                       std::vector<TokenId>& ids) const {
  std::string replaced;
  if (valid_utf8(text) < text.size()) text = replaced = replace_invalid_utf8(text);
  std::unique_ptr<Workspace> space = borrow();
  if (parts_->post_processor.empty()) encode_text(*parts_, text, *space, ids);
  for (const TemplatePart& part : parts_->post_processor) {
    if (part.is_text) {
      encode_text(*parts_, text, *space, ids);
    } else if (special == SpecialTokens::kAdd) {
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    }
  }
  give_back(std::move(space));
}

std::string Tokenizer::decode(std::span<const TokenId> ids, Skip skip) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) {
    std::optional<std::string> token = id_to_token(id);
    if (!token) continue;
    if (skip == Skip::kSpecial && parts_->added.is_special(*token)) continue;
    tokens.push_back(std::move(*token));
  }
  if (tokens.empty()) return "";
  for (const DecodeStep& step : parts_->decoder) step(tokens);
  return core::join(tokens, "");
}

std::int64_t Tokenizer::vocab_size() const {
  auto size = static_cast<std::int64_t>(parts_->vocabulary->size());
  for (const auto& [id, token] : parts_->added.tokens()) {
    if (parts_->vocabulary->find(token.content) == kNoToken) ++size;
  }
  return size;
}

std::int64_t Tokenizer::id_limit() const {
  const std::map<TokenId, AddedToken>& added = parts_->added.tokens();
  const TokenId last = added.empty() ? kNoToken : added.rbegin()->first;
  return std::max(parts_->vocabulary->end_id(), last + 1);
}

std::int64_t Tokenizer::plain_limit() const {
  TokenId end = static_cast<TokenId>(parts_->vocabulary->end_id());
  while (end > 0 && parts_->added.token(end - 1) != nullptr) --end;
  return end;
}

TokenId Tokenizer::token_to_id(std::string_view token) const {
  const TokenId id = parts_->added.id_of(token);
  return id != kNoToken ? id : parts_->vocabulary->find(token);
}

std::optional<std::string> Tokenizer::id_to_token(TokenId id) const {
  if (parts_->added.token(id) != nullptr) return parts_->added.decoded(id);
  if (parts_->vocabulary->has(id)) return parts_->vocabulary->token(id);
  return std::nullopt;
}

TextPart Tokenizer::with_spaces(std::string_view text, TextPart stands, std::size_t from) const {
  return parts_->added.with_spaces(text, stands, from);
}

std::map<TokenId, AddedToken> Tokenizer::added_with(const std::vector<std::string>& more) const {
  AddedTokens added = parts_->added;
  std::vector<AddedToken> tokens;
  for (const std::string& text : more) {
    tokens.push_back({.content = text, .normalized = false, .special = true});
  }
  added.add(tokens, *parts_->vocabulary);
  return added.tokens();
}

const SpecialIds& Tokenizer::special_ids() const { return parts_->special_ids; }

const std::string& Tokenizer::identity() const { return parts_->identity; }

const std::vector<std::string>& Tokenizer::files() const { return parts_->files; }

// A text may change when ids are added (a space that only the first word lacks, a character of
// several tokens), so that some ids before are decoded again with every new one.
std::string StreamDecoder::put(TokenId id) {
  if (prefix_.empty() && !ids_.empty()) {
    std::string text = tokenizer_->decode(ids_, skip_);
    if (!text.ends_with(kReplacement)) {
      prefix_ = std::move(text);
      prefix_ids_ = ids_.size();
    }
  }
  ids_.push_back(id);
  const std::string text = tokenizer_->decode(ids_, skip_);
  if (text.size() <= prefix_.size() || text.ends_with(kReplacement)) return "";
  std::string added = behind_prefix(text);
  const std::size_t kept = ids_.size() - prefix_ids_;
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(prefix_ids_));
  prefix_ = tokenizer_->decode(ids_, skip_);
  prefix_ids_ = kept;
  return added;
}

// Bytes that are no text may change what was given out; then only the new ids count.
std::string StreamDecoder::behind_prefix(const std::string& text) const {
  if (text.starts_with(prefix_)) return text.substr(prefix_.size());
  return tokenizer_->decode(std::span(ids_).subspan(prefix_ids_), skip_);
}

std::string StreamDecoder::finish() {
  std::string added = behind_prefix(tokenizer_->decode(ids_, skip_));
  ids_.clear();
  prefix_.clear();
  prefix_ids_ = 0;
  return added;
}

}  // namespace fm::tokenizer
