#include "text/tokenizer/scanners.h"

#include <algorithm>
#include <array>
#include <string>

#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

// A place in a text, with the class of the character there.
class Cursor {
 public:
  Cursor(std::string_view text, std::size_t at) : text_(text), at_(at) { read(); }

  std::size_t at() const { return at_; }
  bool ends() const { return at_ == text_.size(); }
  char32_t value() const { return point_.value; }
  bool is(unsigned classes) const { return (class_ & classes) != 0; }
  bool is_letter() const { return is(kLetter); }
  bool is_newline() const { return point_.value == '\n' || point_.value == '\r'; }
  // A character of none of these classes.
  bool is_other(unsigned classes) const { return !ends() && !is(classes); }

  void step() {
    at_ += point_.size;
    read();
  }
  void skip(unsigned classes) {
    while (is(classes)) step();
  }
  void skip_newlines() {
    while (is_newline()) step();
  }

 private:
  void read() {
    point_ = at_ < text_.size() ? code_point_at(text_, at_) : CodePoint{};
    class_ = point_.size == 0 ? std::uint8_t{0} : classes_[point_.value];
  }

  std::string_view text_;
  std::size_t at_;
  const std::uint8_t* classes_ = char_classes().data();
  CodePoint point_;
  std::uint8_t class_ = 0;
};

// 's|'t|'re|'ve|'m|'ll|'d behind the quote at `at`: its end, or `at`.
std::size_t contraction(std::string_view text, std::size_t at) {
  constexpr std::array<std::string_view, 7> kEndings = {"s", "t", "re", "ve", "m", "ll", "d"};
  for (const std::string_view ending : kEndings) {
    if (text.substr(at + 1).starts_with(ending)) return at + 1 + ending.size();
  }
  return at;
}

// The same in any case: (?i:..) folds U+017F to s, too.
std::size_t contraction_in_any_case(std::string_view text, std::size_t at) {
  if (at >= text.size() || text[at] != '\'') return at;
  const auto letter = [&](std::size_t index) {
    return index < text.size() ? static_cast<char>(text[index] | 0x20) : '\0';
  };
  const char first = letter(at + 1);
  const char second = letter(at + 2);
  if (text.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  const bool pair = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                    (first == 'l' && second == 'l');
  return pair ? at + 3 : at;
}

// \s+(?!\S)|\s+ at a space: the run, without its last character where one that is no space follows.
std::size_t scan_spaces(std::string_view text, std::size_t at) {
  Cursor here(text, at);
  std::size_t last = at;
  while (here.is(kSpace)) {
    last = here.at();
    here.step();
  }
  return here.ends() || last == at ? here.at() : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at a space.
std::size_t scan_lines(std::string_view text, std::size_t at) {
  std::size_t line_end = at;
  for (Cursor here(text, at); here.is(kSpace);) {
    const bool newline = here.is_newline();
    here.step();
    if (newline) line_end = here.at();
  }
  return line_end > at ? line_end : scan_spaces(text, at);
}

// ` ?[^\s\p{L}\p{N}]+` and what may follow, where `none` are the classes that it excludes; or `at`.
template <bool kSlash>
std::size_t scan_others(std::string_view text, std::size_t at, unsigned none) {
  Cursor here(text, at);
  if (here.value() == ' ') here.step();
  if (!here.is_other(none)) return at;
  while (here.is_other(none)) here.step();
  while (here.is_newline() || (kSlash && here.value() == '/')) here.step();
  return here.at();
}

std::size_t scan_digits(Cursor here, int most) {
  for (int i = 0; i < most && here.is(kNumber); ++i) here.step();
  return here.at();
}

// [^\r\n\p{L}\p{N}]?<letters>+ with letters = `of`; or `at`.
std::size_t scan_word(std::string_view text, std::size_t at, unsigned of) {
  Cursor here(text, at);
  if (here.is_other(kLetter | kNumber) && !here.is_newline()) {
    Cursor word = here;
    word.step();
    if (word.is(of)) {
      word.skip(of);
      return word.at();
    }
  }
  here.skip(of);
  return here.at();
}

// cl100k (Llama 3, Qwen 2): kDigits at once; kWord are the characters of words.
template <int kDigits, unsigned kWord>
std::size_t scan_cl100k(std::string_view text, std::size_t at) {
  constexpr unsigned kNone = kSpace | kWord | kNumber;
  std::size_t end = contraction_in_any_case(text, at);
  if (end > at) return end;
  end = scan_word(text, at, kWord);
  if (end > at) return end;
  const Cursor here(text, at);
  if (here.is(kNumber)) return scan_digits(here, kDigits);
  end = scan_others<false>(text, at, kNone);
  return end > at ? end : scan_lines(text, at);
}

// o200k's words: upper case, then lower case; kCapitals and kSmalls share the letters of neither.
constexpr unsigned kCapitals = kUpper | kOtherLetter | kMark;
constexpr unsigned kSmalls = kLower | kOtherLetter | kMark;

// [capitals]*[smalls]+ at `here`, or npos. The stars are greedy: where no small one follows, the
// last capital that is a small one, too, is given back.
std::size_t scan_small_word(Cursor here) {
  std::size_t end = std::string_view::npos;
  while (here.is(kCapitals)) {
    const bool both = here.is(kSmalls);
    here.step();
    if (both) end = here.at();
  }
  if (!here.is(kSmalls)) return end;
  here.skip(kSmalls);
  return here.at();
}

// [capitals]+[smalls]* at `here`, or npos.
std::size_t scan_capital_word(Cursor here) {
  if (!here.is(kCapitals)) return std::string_view::npos;
  here.skip(kCapitals);
  here.skip(kSmalls);
  return here.at();
}

// Either word, with or without a character before it; or `at`.
std::size_t scan_cased_word(std::string_view text, std::size_t at) {
  const Cursor here(text, at);
  Cursor behind = here;
  const bool has_prefix = here.is_other(kLetter | kNumber) && !here.is_newline();
  if (has_prefix) behind.step();
  for (const auto scan : {scan_small_word, scan_capital_word}) {
    std::size_t end = has_prefix ? scan(behind) : std::string_view::npos;
    if (end == std::string_view::npos) end = scan(here);
    if (end != std::string_view::npos) return end;
  }
  return at;
}

// o200k (Llama 4, gpt-oss) and Tekken (Mistral), which knows no contractions.
template <int kDigits, bool kContractions>
std::size_t scan_o200k(std::string_view text, std::size_t at) {
  std::size_t end = scan_cased_word(text, at);
  if (end > at) return kContractions ? contraction_in_any_case(text, end) : end;
  const Cursor here(text, at);
  if (here.is(kNumber)) return scan_digits(here, kDigits);
  end = scan_others<true>(text, at, kSpace | kLetter | kNumber);
  return end > at ? end : scan_lines(text, at);
}

bool is_ascii_letter(char32_t value) {
  return (value >= 'a' && value <= 'z') || (value >= 'A' && value <= 'Z');
}

bool is_ascii_punctuation(char32_t value) {
  return value > ' ' && value < 0x7F && !is_ascii_letter(value) && (value < '0' || value > '9');
}

// The third pattern of DeepSeek V3.
std::size_t scan_deepseek(std::string_view text, std::size_t at) {
  Cursor here(text, at);
  Cursor behind = here;
  behind.step();
  if (is_ascii_punctuation(here.value()) && is_ascii_letter(behind.value())) {
    while (is_ascii_letter(behind.value())) behind.step();
    return behind.at();
  }
  constexpr unsigned kWord = kLetter | kMark;
  if (here.is_other(kLetter | kPunctuation | kSymbol) && !here.is_newline() && behind.is(kWord)) {
    behind.skip(kWord);
    return behind.at();
  }
  if (here.is(kWord)) {
    here.skip(kWord);
    return here.at();
  }
  constexpr unsigned kSigns = kPunctuation | kSymbol;
  const Cursor start = here;
  if (here.value() == ' ') here.step();
  if (here.is(kSigns)) {
    here.skip(kSigns);
    here.skip_newlines();
    return here.at();
  }
  return start.is(kSpace) ? scan_lines(text, at) : at;
}

template <int kDigits>
std::size_t scan_numbers(std::string_view text, std::size_t at) {
  return scan_digits(Cursor(text, at), kDigits);
}

// [一-龥぀-ゟ゠-ヿ]+
std::size_t scan_deepseek_cjk(std::string_view text, std::size_t at) {
  const auto is_cjk = [](char32_t value) {
    return (value >= 0x4E00 && value <= 0x9FA5) || (value >= 0x3040 && value <= 0x30FF);
  };
  Cursor here(text, at);
  while (is_cjk(here.value())) here.step();
  return here.at();
}

struct Known {
  std::string_view pattern;
  Scanner scanner;
};

constexpr unsigned kMarkedLetter = kLetter | kMark;

#define FM_CASED(UPPER, LOWER, REST)                                 \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]" UPPER \
  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" LOWER REST
#define FM_ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define FM_LINES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

constexpr Known kKnown[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     scan_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", scan_gpt2},
    {FM_ANY_CASE
     "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" FM_LINES,
     scan_cl100k<3, kLetter>},
    {FM_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" FM_LINES,
     scan_cl100k<1, kLetter>},
    {FM_ANY_CASE
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" FM_LINES,
     scan_cl100k<1, kMarkedLetter>},
    {FM_CASED("*", "+", FM_ANY_CASE "?|") FM_CASED(
         "+", "*", FM_ANY_CASE "?|") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" FM_LINES,
     scan_o200k<3, true>},
    {FM_CASED("*", "+", "|")
         FM_CASED("+", "*", "|") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" FM_LINES,
     scan_o200k<1, false>},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{"
     "M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" FM_LINES,
     scan_deepseek},
    {"[一-龥぀-ゟ゠-ヿ]+", scan_deepseek_cjk},
    {"\\p{N}{1,3}", scan_numbers<3>},
    {"\\p{N}", scan_numbers<1>},
};

#undef FM_CASED
#undef FM_ANY_CASE
#undef FM_LINES

}  // namespace

std::size_t scan_gpt2(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    const std::size_t end = contraction(text, at);
    if (end > at) return end;
  }
  Cursor here(text, at);
  if (here.value() == ' ') here.step();
  if (here.is(kLetter)) {
    here.skip(kLetter);
    return here.at();
  }
  if (here.is(kNumber)) {
    here.skip(kNumber);
    return here.at();
  }
  constexpr unsigned kNone = kSpace | kLetter | kNumber;
  if (!here.is_other(kNone)) return scan_spaces(text, at);
  while (here.is_other(kNone)) here.step();
  return here.at();
}

Scanner find_scanner(std::string_view pattern) {
  std::string spelt;  // some files have the characters that others escape
  for (const char letter : pattern) {
    if (letter == '\r' || letter == '\n') {
      spelt += letter == '\r' ? "\\r" : "\\n";
    } else {
      spelt += letter;
    }
  }
  for (const Known& known : kKnown) {
    if (known.pattern == spelt) return known.scanner;
  }
  return nullptr;
}

}  // namespace fm::tokenizer
