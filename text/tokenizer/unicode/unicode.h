// Code points of UTF-8 text and what kind of character they are, by Unicode 16: the version of the
// regular expressions of Hugging Face's tokenizers (0.23).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fm::tokenizer {

inline constexpr char32_t kCodePoints = 0x110000;
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kMetaSpace = "\xE2\x96\x81";  // U+2581, a space in SentencePiece

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;  // in bytes
};

// Of the character that begins at `at`; `text` is valid UTF-8.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t index) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + index]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

// The character that ends at `end` (> 0).
CodePoint code_point_before(std::string_view text, std::size_t end);
void append_utf8(std::string& text, char32_t value);

// The length of the longest start of `text` that is valid UTF-8.
std::size_t valid_utf8(std::string_view text);
// Every maximal part of a character that is none becomes U+FFFD, as by Python's errors="replace".
std::string replace_invalid_utf8(std::string_view text);

// Kinds of characters, one bit each: \p{..} of a split pattern is a test of bits.
enum Class : std::uint8_t {
  kUpper = 1,         // Lu, Lt
  kLower = 2,         // Ll
  kOtherLetter = 4,   // Lm, Lo
  kMark = 8,          // M
  kNumber = 16,       // N
  kSpace = 32,        // \s, White_Space
  kPunctuation = 64,  // P
  kSymbol = 128,      // S
  kLetter = kUpper | kLower | kOtherLetter,
};

// The class bits of every code point.
const std::vector<std::uint8_t>& char_classes();

inline bool is_space(char32_t value) { return (char_classes()[value] & kSpace) != 0; }
// \w of Rust's regex: Alphabetic, M, Nd, Pc, Join_Control.
bool is_word(char32_t value);
// Rust's char::is_numeric: N, of Unicode 17.
bool is_numeric(char32_t value);
// Punctuation as the wheel's table (of Unicode 8) has it, with all of ASCII's.
bool is_old_punctuation(char32_t value);

// What Debian 12's libraries do not know yet: code points that came after Unicode 14.
struct NewRange {
  char32_t first = 0;
  char32_t last = 0;
  std::string_view category;  // "Lu"; P and S without their second letter
};
std::span<const NewRange> ranges_since_unicode_14();
// Code points of P that came after the table of is_old_punctuation.
std::span<const NewRange> punctuation_since_unicode_8();
// Code points with a decomposition or a combining class, and those of M, that came after the tables
// of the wheel's normalisers.
std::span<const NewRange> forms_since_unicode_9();
std::span<const NewRange> marks_since_unicode_9();
bool is_in(std::span<const NewRange> ranges, char32_t value);

}  // namespace fm::tokenizer
