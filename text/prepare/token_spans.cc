#include "text/prepare/token_spans.h"

#include <algorithm>
#include <array>

#include "text/tokenizer/added_tokens.h"

namespace fm::prepare {
namespace {

using tokenizer::TokenId;

constexpr std::string_view kMetaSpace = "\xE2\x96\x81";  // U+2581
constexpr int kAlphabet = 0x144;                         // code points that stand for bytes

// GPT-2's bytes_to_unicode, from code point to byte; -1: none.
std::array<int, kAlphabet> byte_of_point() {
  std::array<int, kAlphabet> out{};
  out.fill(-1);
  std::size_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    out[itself ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return out;
}

// The bytes that a token of the alphabet stands for; of others the token itself.
std::string bytes_of(const std::string& token) {
  static const std::array<int, kAlphabet> kBytes = byte_of_point();
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const auto lead = static_cast<unsigned char>(token[at]);
    std::size_t point = lead;
    std::size_t length = 1;
    if (lead >= 0x80) {  // the alphabet ends below U+0800
      if ((lead & 0xE0U) != 0xC0 || at + 1 >= token.size()) return token;
      point = ((lead & 0x1FU) << 6U) | (static_cast<unsigned char>(token[at + 1]) & 0x3FU);
      length = 2;
    }
    if (point >= kAlphabet || kBytes[point] < 0) return token;
    out += static_cast<char>(kBytes[point]);
    at += length;
  }
  return out;
}

// A piece with spaces for meta symbols; "<0x0A>" is a byte.
std::string text_of(const std::string& piece) {
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with(">")) {
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  }
  std::string out;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t space = piece.find(kMetaSpace, at);
    out += piece.substr(at, space - at);
    if (space == std::string::npos) break;
    out += ' ';
    at = space + kMetaSpace.size();
  }
  return out;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Whether the text begins with the token, or without the space before it that may be the
// tokenizer's own.
bool begins(std::string_view text, std::string_view token) {
  return text.starts_with(token) || (token.front() == ' ' && text.starts_with(token.substr(1)));
}

// Whether a lone space stands for a line end, or tab, that a normal form made one; not where the
// next token stands for that.
bool is_line_end(std::string_view token, std::string_view text, std::string_view next_token) {
  return token == " " && !text.empty() && text.front() != ' ' && is_space(text.front()) &&
         !next_token.starts_with(text.front());
}

}  // namespace

TokenSpans::TokenSpans(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (TokenId id = 0; id < tokenizer.id_limit(); ++id) {
    const std::string token = tokenizer.id_to_token(id).value_or("");
    of_bytes_.push_back(bytes_of(token));
    of_pieces_.push_back(text_of(token));
  }
}

std::optional<std::vector<jinja::Span>> TokenSpans::find(std::string_view text,
                                                         std::span<const TokenId> ids) const {
  if (auto found = find(text, ids, of_bytes_)) return found;
  return find(text, ids, of_pieces_);
}

std::optional<std::vector<jinja::Span>> TokenSpans::find(
    std::string_view text, std::span<const TokenId> ids,
    const std::vector<std::string>& texts) const {
  std::vector<jinja::Span> spans;
  std::size_t at = 0;
  std::size_t taken = 0;  // spaces up to here are an added token's; another one may be of them
  const auto text_at = [&](std::size_t index) -> std::string_view {
    return index < ids.size() ? std::string_view(texts[static_cast<std::size_t>(ids[index])]) : "";
  };
  for (std::size_t index = 0; index < ids.size(); ++index) {
    std::string_view token = text_at(index);
    if (token.empty()) return std::nullopt;
    if (begins(text.substr(taken), token)) at = taken;
    if (is_line_end(token, text.substr(at), text_at(index + 1))) token = text.substr(at, 1);
    // The tokenizer's own: a space before a word, or BOS.
    const bool here = text.substr(at).starts_with(token);
    if (!here && begins(text.substr(at), token)) token = token.substr(1);
    std::size_t begin = at;
    while (!text.substr(begin).starts_with(token) && begin < text.size() &&
           (begin < taken || is_space(text[begin]))) {
      ++begin;
    }
    if (!text.substr(begin).starts_with(token)) {
      if (!spans.empty()) return std::nullopt;
      begin = at;
      token = std::string_view();
    }
    const tokenizer::TextPart whole =
        tokenizer_.with_spaces(text, {ids[index], begin, begin + token.size()}, at);
    spans.push_back({whole.begin, whole.end});
    at = begin + token.size();
    taken = std::max(at, whole.end);
  }
  at = std::max(at, taken);
  while (at < text.size() && is_space(text[at])) ++at;
  if (at < text.size()) return std::nullopt;
  // A space of the tokenizer's own stands where the next token begins.
  for (std::size_t i = spans.size(); i-- > 1;) {
    jinja::Span& before = spans[i - 1];
    if (before.begin == before.end) before = {spans[i].begin, spans[i].begin};
  }
  return spans;
}

}  // namespace fm::prepare
