#include "text/tokenizer/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace fm::tokenizer {
namespace {

constexpr char32_t kSpaces[] = {0x9,    0xA,    0xB,    0xC,    0xD,    0x20,   0x85,
                                0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                0x2029, 0x202F, 0x205F, 0x3000};

std::uint8_t class_of(std::string_view category) {
  switch (category[0]) {
    case 'L':
      if (category == "Ll") return kLower;
      return category == "Lu" || category == "Lt" ? kUpper : kOtherLetter;
    case 'M': return kMark;
    case 'N': return kNumber;
    case 'P': return kPunctuation;
    case 'S': return kSymbol;
    default: return 0;  // Z and C: no pattern names them
  }
}

std::vector<std::uint8_t> make_classes() {
  std::vector<std::uint8_t> classes(kCodePoints);
  for (char32_t value = 0; value < kCodePoints; ++value) {
    classes[value] = class_of(utf8proc_category_string(static_cast<utf8proc_int32_t>(value)));
  }
  for (const NewRange& range : ranges_since_unicode_14()) {
    std::fill(classes.begin() + range.first, classes.begin() + range.last + 1,
              class_of(range.category));
  }
  for (const char32_t space : kSpaces) classes[space] |= kSpace;
  return classes;
}

bool is_between(char32_t value, char32_t first, char32_t last) {
  return first <= value && value <= last;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// How many bytes the character at `at` has; 0 when it is none, and then `part` is how many bytes
// belong to it.
std::size_t character_at(std::string_view text, std::size_t at, std::size_t& part) {
  const auto first = static_cast<unsigned char>(text[at]);
  part = 1;
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte decides against overlong forms, surrogates and values above U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (at + 1 == text.size()) return 0;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  if (second < low || second > high) return 0;
  for (part = 2; part < size; ++part) {
    if (at + part == text.size() || !is_continuation(text[at + part])) return 0;
  }
  return size;
}

}  // namespace

bool is_in(std::span<const NewRange> ranges, char32_t value) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const NewRange& range) {
    return range.first <= value && value <= range.last;
  });
}

const std::vector<std::uint8_t>& char_classes() {
  static const std::vector<std::uint8_t> classes = make_classes();
  return classes;
}

CodePoint code_point_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return code_point_at(text, begin);
}

void append_utf8(std::string& text, char32_t value) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80) return put(value);
  if (value < 0x800) {
    put(0xC0 | value >> 6);
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
  }
  put(0x80 | (value & 0x3F));
}

std::size_t valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    std::size_t part = 0;
    const std::size_t size = character_at(text, at, part);
    if (size == 0) return at;
    at += size;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t good = valid_utf8(text);
    valid += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    std::size_t part = 0;
    character_at(text, 0, part);
    valid += kReplacement;
    text.remove_prefix(part);
  }
  return valid;
}

bool is_word(char32_t value) {
  if ((char_classes()[value] & (kLetter | kMark)) != 0) return true;
  if (value == 0x200C || value == 0x200D) return true;  // Join_Control
  if (is_between(value, 0x24B6, 0x24E9) || is_between(value, 0x1F130, 0x1F149) ||
      is_between(value, 0x1F150, 0x1F169) || is_between(value, 0x1F170, 0x1F189)) {
    return true;  // letters in circles and squares are Alphabetic, and symbols
  }
  for (const NewRange& range : ranges_since_unicode_14()) {
    if (is_between(value, range.first, range.last)) return range.category == "Nd";
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;  // of C, P, S, Z and No
  }
}

bool is_numeric(char32_t value) {
  return (char_classes()[value] & kNumber) != 0 || is_between(value, 0x11DE0, 0x11DE9) ||
         is_between(value, 0x16FF4, 0x16FF6);
}

bool is_old_punctuation(char32_t value) {
  if (value < 0x80) return value > 0x20 && value < 0x7F && (char_classes()[value] & 0xC0) != 0;
  if (value == 0x166D || value == 0x111C9) return true;  // Po then, So and Mn now
  return (char_classes()[value] & kPunctuation) != 0 &&
         !is_in(punctuation_since_unicode_8(), value);
}

}  // namespace fm::tokenizer
