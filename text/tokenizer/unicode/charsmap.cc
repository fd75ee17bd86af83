#include "text/tokenizer/unicode/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "core/check.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

// The fields of a unit, as darts-clone packs them.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & (1U << 31 | 0xFF); }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& where) {
  std::uint32_t bytes = 0;
  if (blob.size() >= sizeof(bytes)) std::memcpy(&bytes, blob.data(), sizeof(bytes));
  FM_DATA_CHECK(blob.size() > sizeof(bytes) && bytes < blob.size() - sizeof(bytes) &&
                    bytes % sizeof(std::uint32_t) == 0 && bytes > 0,
                where, ": a charsmap must hold its trie and replacements; fetch the file again (",
                blob.size(), " bytes, trie of ", bytes, ")");
  units_.resize(bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), blob.data() + sizeof(bytes), bytes);
  replacements_ = blob.substr(sizeof(bytes) + bytes);
}

std::optional<Charsmap::Rule> Charsmap::find(std::string_view text, bool shortest) const {
  std::optional<Rule> found;
  if (units_.empty()) return found;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t at = value_of(units_[node]);
    if (at >= replacements_.size()) break;
    const std::string_view rest = std::string_view(replacements_).substr(at);
    found = {.size = i + 1, .replacement = rest.substr(0, rest.find('\0'))};
    if (shortest) break;
  }
  return found;
}

std::string decode_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const std::size_t value = kLetters.find(letter);
    FM_DATA_CHECK(value != std::string_view::npos, where,
                  ": base64 is required; fetch the file again (letter ", letter, ")");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

std::size_t grapheme_end(std::string_view text, std::size_t at) {
  utf8proc_int32_t state = 0;
  CodePoint left = code_point_at(text, at);
  at += left.size;
  while (at < text.size()) {
    const CodePoint right = code_point_at(text, at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left.value),
                                         static_cast<utf8proc_int32_t>(right.value), &state)) {
      break;
    }
    at += right.size;
    left = right;
  }
  return at;
}

}  // namespace fm::tokenizer
