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

constexpr NewRange kSince14[] = {
    {0x897, 0x897, "Mn"},     {0xCF3, 0xCF3, "Mc"},     {0xECE, 0xECE, "Mn"},
    {0x1B4E, 0x1B4F, "P"},    {0x1B7F, 0x1B7F, "P"},    {0x1C89, 0x1C89, "Lu"},
    {0x1C8A, 0x1C8A, "Ll"},   {0x2427, 0x2429, "S"},    {0x2FFC, 0x2FFF, "S"},
    {0x31E4, 0x31E5, "S"},    {0x31EF, 0x31EF, "S"},    {0xA7CB, 0xA7CC, "Lu"},
    {0xA7CD, 0xA7CD, "Ll"},   {0xA7DA, 0xA7DA, "Lu"},   {0xA7DB, 0xA7DB, "Ll"},
    {0xA7DC, 0xA7DC, "Lu"},   {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "Nd"},
    {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"}, {0x10D4F, 0x10D4F, "Lo"},
    {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"}, {0x10D6E, 0x10D6E, "P"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "S"},
    {0x10EC2, 0x10EC4, "Lo"}, {0x10EFC, 0x10EFF, "Mn"}, {0x1123F, 0x11240, "Lo"},
    {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"}, {0x1138B, 0x1138B, "Lo"},
    {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"},
    {0x113B8, 0x113BA, "Mc"}, {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"},
    {0x113C5, 0x113C5, "Mc"}, {0x113C7, 0x113CA, "Mc"}, {0x113CC, 0x113CD, "Mc"},
    {0x113CE, 0x113CE, "Mn"}, {0x113CF, 0x113CF, "Mc"}, {0x113D0, 0x113D0, "Mn"},
    {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"},
    {0x113D4, 0x113D5, "P"},  {0x113D7, 0x113D8, "P"},  {0x113E1, 0x113E2, "Mn"},
    {0x116D0, 0x116E3, "Nd"}, {0x1171E, 0x1171E, "Mc"}, {0x11B00, 0x11B09, "P"},
    {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "P"},  {0x11BF0, 0x11BF9, "Nd"},
    {0x11F00, 0x11F01, "Mn"}, {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "Mc"},
    {0x11F04, 0x11F10, "Lo"}, {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F35, "Mc"},
    {0x11F36, 0x11F3A, "Mn"}, {0x11F3E, 0x11F3F, "Mc"}, {0x11F40, 0x11F40, "Mn"},
    {0x11F41, 0x11F41, "Mc"}, {0x11F42, 0x11F42, "Mn"}, {0x11F43, 0x11F4F, "P"},
    {0x11F50, 0x11F59, "Nd"}, {0x11F5A, 0x11F5A, "Mn"}, {0x1342F, 0x1342F, "Lo"},
    {0x13439, 0x1343F, "Cf"}, {0x13440, 0x13440, "Mn"}, {0x13441, 0x13446, "Lo"},
    {0x13447, 0x13455, "Mn"}, {0x13460, 0x143FA, "Lo"}, {0x16100, 0x1611D, "Lo"},
    {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"}, {0x1612D, 0x1612F, "Mn"},
    {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"},
    {0x16D6B, 0x16D6C, "Lm"}, {0x16D6D, 0x16D6F, "P"},  {0x16D70, 0x16D79, "Nd"},
    {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"}, {0x1B155, 0x1B155, "Lo"},
    {0x1CC00, 0x1CCEF, "S"},  {0x1CCF0, 0x1CCF9, "Nd"}, {0x1CD00, 0x1CEB3, "S"},
    {0x1D2C0, 0x1D2D3, "No"}, {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"},
    {0x1E08F, 0x1E08F, "Mn"}, {0x1E4D0, 0x1E4EA, "Lo"}, {0x1E4EB, 0x1E4EB, "Lm"},
    {0x1E4EC, 0x1E4EF, "Mn"}, {0x1E4F0, 0x1E4F9, "Nd"}, {0x1E5D0, 0x1E5ED, "Lo"},
    {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "Nd"},
    {0x1E5FF, 0x1E5FF, "P"},  {0x1F6DC, 0x1F6DC, "S"},  {0x1F774, 0x1F776, "S"},
    {0x1F77B, 0x1F77F, "S"},  {0x1F7D9, 0x1F7D9, "S"},  {0x1F8B2, 0x1F8BB, "S"},
    {0x1F8C0, 0x1F8C1, "S"},  {0x1FA75, 0x1FA77, "S"},  {0x1FA87, 0x1FA89, "S"},
    {0x1FA8F, 0x1FA8F, "S"},  {0x1FAAD, 0x1FAAF, "S"},  {0x1FABB, 0x1FABF, "S"},
    {0x1FAC6, 0x1FAC6, "S"},  {0x1FACE, 0x1FACF, "S"},  {0x1FADA, 0x1FADC, "S"},
    {0x1FADF, 0x1FADF, "S"},  {0x1FAE8, 0x1FAE9, "S"},  {0x1FAF7, 0x1FAF8, "S"},
    {0x1FBCB, 0x1FBEF, "S"},  {0x2B739, 0x2B739, "Lo"}, {0x2EBF0, 0x2EE5D, "Lo"},
    {0x31350, 0x323AF, "Lo"},
};

constexpr NewRange kPunctuationSince8[] = {
    {0x61D, 0x61D, "P"},     {0x9FD, 0x9FD, "P"},     {0xA76, 0xA76, "P"},
    {0xC77, 0xC77, "P"},     {0xC84, 0xC84, "P"},     {0x1B4E, 0x1B4F, "P"},
    {0x1B7D, 0x1B7F, "P"},   {0x2E43, 0x2E4F, "P"},   {0x2E52, 0x2E5D, "P"},
    {0x10D6E, 0x10D6E, "P"}, {0x10EAD, 0x10EAD, "P"}, {0x10F55, 0x10F59, "P"},
    {0x10F86, 0x10F89, "P"}, {0x113D4, 0x113D5, "P"}, {0x113D7, 0x113D8, "P"},
    {0x1144B, 0x1144F, "P"}, {0x1145A, 0x1145B, "P"}, {0x1145D, 0x1145D, "P"},
    {0x11660, 0x1166C, "P"}, {0x116B9, 0x116B9, "P"}, {0x1183B, 0x1183B, "P"},
    {0x11944, 0x11946, "P"}, {0x119E2, 0x119E2, "P"}, {0x11A3F, 0x11A46, "P"},
    {0x11A9A, 0x11A9C, "P"}, {0x11A9E, 0x11AA2, "P"}, {0x11B00, 0x11B09, "P"},
    {0x11BE1, 0x11BE1, "P"}, {0x11C41, 0x11C45, "P"}, {0x11C70, 0x11C71, "P"},
    {0x11EF7, 0x11EF8, "P"}, {0x11F43, 0x11F4F, "P"}, {0x11FFF, 0x11FFF, "P"},
    {0x12FF1, 0x12FF2, "P"}, {0x16D6D, 0x16D6F, "P"}, {0x16E97, 0x16E9A, "P"},
    {0x16FE2, 0x16FE2, "P"}, {0x1E5FF, 0x1E5FF, "P"}, {0x1E95E, 0x1E95F, "P"},
};

constexpr NewRange kFormsSince9[] = {
    {0x7FD, 0x7FD, ""},     {0x898, 0x89F, ""},     {0x8CA, 0x8D3, ""},     {0x9FE, 0x9FE, ""},
    {0xC3C, 0xC3C, ""},     {0xD3B, 0xD3C, ""},     {0xEBA, 0xEBA, ""},     {0x1715, 0x1715, ""},
    {0x1ABF, 0x1ACE, ""},   {0x1DF6, 0x1DFA, ""},   {0x32FF, 0x32FF, ""},   {0xA7F2, 0xA7F4, ""},
    {0xA82C, 0xA82C, ""},   {0xAB69, 0xAB69, ""},   {0x10781, 0x10785, ""}, {0x10787, 0x107B0, ""},
    {0x107B2, 0x107BA, ""}, {0x10D24, 0x10D27, ""}, {0x10EAB, 0x10EAC, ""}, {0x10EFD, 0x10EFF, ""},
    {0x10F46, 0x10F50, ""}, {0x10F82, 0x10F85, ""}, {0x11070, 0x11070, ""}, {0x1133B, 0x1133B, ""},
    {0x1145E, 0x1145E, ""}, {0x11839, 0x1183A, ""}, {0x11938, 0x11938, ""}, {0x1193D, 0x1193E, ""},
    {0x11943, 0x11943, ""}, {0x119E0, 0x119E0, ""}, {0x11A34, 0x11A34, ""}, {0x11A47, 0x11A47, ""},
    {0x11A99, 0x11A99, ""}, {0x11D42, 0x11D42, ""}, {0x11D44, 0x11D45, ""}, {0x11D97, 0x11D97, ""},
    {0x11F41, 0x11F42, ""}, {0x16FF0, 0x16FF1, ""}, {0x1E030, 0x1E06D, ""}, {0x1E08F, 0x1E08F, ""},
    {0x1E130, 0x1E136, ""}, {0x1E2AE, 0x1E2AE, ""}, {0x1E2EC, 0x1E2EF, ""}, {0x1E4EC, 0x1E4EF, ""},
    {0x1F16C, 0x1F16C, ""}, {0x1FBF0, 0x1FBF9, ""},
};

constexpr NewRange kMarksSince9[] = {
    {0x7FD, 0x7FD, "M"},     {0x897, 0x89F, "M"},     {0x8CA, 0x8D3, "M"},
    {0x9FE, 0x9FE, "M"},     {0xAFA, 0xAFF, "M"},     {0xB55, 0xB55, "M"},
    {0xC04, 0xC04, "M"},     {0xC3C, 0xC3C, "M"},     {0xCF3, 0xCF3, "M"},
    {0xD00, 0xD00, "M"},     {0xD3B, 0xD3C, "M"},     {0xD81, 0xD81, "M"},
    {0xEBA, 0xEBA, "M"},     {0xECE, 0xECE, "M"},     {0x1715, 0x1715, "M"},
    {0x180F, 0x180F, "M"},   {0x1ABF, 0x1ACE, "M"},   {0x1CF7, 0x1CF7, "M"},
    {0x1DF6, 0x1DFA, "M"},   {0xA82C, 0xA82C, "M"},   {0xA8FF, 0xA8FF, "M"},
    {0x10D24, 0x10D27, "M"}, {0x10D69, 0x10D6D, "M"}, {0x10EAB, 0x10EAC, "M"},
    {0x10EFC, 0x10EFF, "M"}, {0x10F46, 0x10F50, "M"}, {0x10F82, 0x10F85, "M"},
    {0x11070, 0x11070, "M"}, {0x11073, 0x11074, "M"}, {0x110C2, 0x110C2, "M"},
    {0x11145, 0x11146, "M"}, {0x111C9, 0x111C9, "M"}, {0x111CE, 0x111CF, "M"},
    {0x11241, 0x11241, "M"}, {0x1133B, 0x1133B, "M"}, {0x113B8, 0x113C0, "M"},
    {0x113C2, 0x113C2, "M"}, {0x113C5, 0x113C5, "M"}, {0x113C7, 0x113CA, "M"},
    {0x113CC, 0x113D0, "M"}, {0x113D2, 0x113D2, "M"}, {0x113E1, 0x113E2, "M"},
    {0x1145E, 0x1145E, "M"}, {0x1182C, 0x1183A, "M"}, {0x11930, 0x11935, "M"},
    {0x11937, 0x11938, "M"}, {0x1193B, 0x1193E, "M"}, {0x11940, 0x11940, "M"},
    {0x11942, 0x11943, "M"}, {0x119D1, 0x119D7, "M"}, {0x119DA, 0x119E0, "M"},
    {0x119E4, 0x119E4, "M"}, {0x11A01, 0x11A0A, "M"}, {0x11A33, 0x11A39, "M"},
    {0x11A3B, 0x11A3E, "M"}, {0x11A47, 0x11A47, "M"}, {0x11A51, 0x11A5B, "M"},
    {0x11A8A, 0x11A99, "M"}, {0x11D31, 0x11D36, "M"}, {0x11D3A, 0x11D3A, "M"},
    {0x11D3C, 0x11D3D, "M"}, {0x11D3F, 0x11D45, "M"}, {0x11D47, 0x11D47, "M"},
    {0x11D8A, 0x11D8E, "M"}, {0x11D90, 0x11D91, "M"}, {0x11D93, 0x11D97, "M"},
    {0x11EF3, 0x11EF6, "M"}, {0x11F00, 0x11F01, "M"}, {0x11F03, 0x11F03, "M"},
    {0x11F34, 0x11F3A, "M"}, {0x11F3E, 0x11F42, "M"}, {0x11F5A, 0x11F5A, "M"},
    {0x13440, 0x13440, "M"}, {0x13447, 0x13455, "M"}, {0x1611E, 0x1612F, "M"},
    {0x16F4F, 0x16F4F, "M"}, {0x16F7F, 0x16F87, "M"}, {0x16FE4, 0x16FE4, "M"},
    {0x16FF0, 0x16FF1, "M"}, {0x1CF00, 0x1CF2D, "M"}, {0x1CF30, 0x1CF46, "M"},
    {0x1E08F, 0x1E08F, "M"}, {0x1E130, 0x1E136, "M"}, {0x1E2AE, 0x1E2AE, "M"},
    {0x1E2EC, 0x1E2EF, "M"}, {0x1E4EC, 0x1E4EF, "M"}, {0x1E5EE, 0x1E5EF, "M"},
};

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

std::span<const NewRange> ranges_since_unicode_14() { return kSince14; }

std::span<const NewRange> punctuation_since_unicode_8() { return kPunctuationSince8; }

std::span<const NewRange> forms_since_unicode_9() { return kFormsSince9; }

std::span<const NewRange> marks_since_unicode_9() { return kMarksSince9; }

}  // namespace fm::tokenizer
