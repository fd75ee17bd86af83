#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja/code_points.h"

namespace fm::jinja {
namespace {

// All ends of lines as "\n", and without the last one.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      text += source[at];
      continue;
    }
    text += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_digit(char one) { return one >= '0' && one <= '9'; }
bool is_name(char one) {
  return is_digit(one) || one == '_' || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z');
}

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& file)
      : source_(normalized(source)), file_(file) {}

  std::vector<Token> read() {
    FM_DATA_CHECK(is_utf8(source_), file_, ":1: a template must be UTF-8; convert it");
    while (at_ < source_.size()) read_text();
    add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw core::UserError(core::ExitCode::kDataError,
                          core::concat(file_, ":", line_, ": ", parts...));
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({kind, line_, std::move(text), {}});
  }
  // Moves behind `count` bytes.
  void skip(std::size_t count) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
    at_ += count;
  }
  void skip_spaces() { skip(rest().size() - strip(rest(), Side::kLeft).size()); }
  bool take(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    skip(text.size());
    return true;
  }

  // Text before a tag, without what '-' or lstrip_blocks strip.
  void add_text(std::string_view text, char sign, bool is_output) {
    std::string_view kept = text;
    if (sign == '-') {
      kept = strip(text, Side::kRight);
    } else if (sign != '+' && !is_output) {
      const std::size_t start = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((start > 0 || line_starting_) && strip(text.substr(start), Side::kLeft).empty())
        kept = text.substr(0, start);
    }
    if (!kept.empty()) add(TokenKind::kText, std::string(kept));
  }

  char sign_at(std::size_t at) const {
    const char sign = at < source_.size() ? source_[at] : ' ';
    return sign == '-' || sign == '+' ? sign : ' ';
  }

  // Text up to the next tag, and the tag.
  void read_text() {
    std::size_t tag = at_;
    const auto is_tag = [&] {
      const char second = tag + 1 < source_.size() ? source_[tag + 1] : ' ';
      return second == '{' || second == '%' || second == '#';
    };
    for (tag = source_.find('{', at_); tag != source_.npos; tag = source_.find('{', tag + 1)) {
      if (is_tag()) break;
    }
    if (tag == source_.npos) {
      add(TokenKind::kText, std::string(rest()));
      return skip(rest().size());
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_text(rest().substr(0, tag - at_), sign, kind == '{');
    skip(tag - at_ + (sign == ' ' ? 2 : 3));
    line_starting_ = false;
    if (kind == '#') return read_comment();
    if (kind == '%' && starts_raw()) return read_raw();
    add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kBlockBegin);
    read_tag(kind == '{');
  }

  // What follows the end of a block or a comment.
  void after_block(char sign) {
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+') {
      take("\n");
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  void read_comment() {
    const std::size_t end = rest().find("#}");
    if (end == std::string_view::npos) refuse("a comment must end with #}; add it");
    const char sign = end == 0 ? ' ' : sign_at(at_ + end - 1);
    skip(end + 2);
    after_block(sign);
  }

  // Whether `{%` is followed by `raw %}`; moves behind it.
  bool starts_raw() {
    const std::size_t begin = at_;
    const int line = line_;
    skip_spaces();
    if (take("raw")) {
      skip_spaces();
      const bool strips = take("-%}");
      if (strips) skip_spaces();
      if (strips || take("%}")) {
        line_starting_ = source_[at_ - 1] == '\n';
        return true;
      }
    }
    at_ = begin;
    line_ = line;
    return false;
  }

  void read_raw() {
    const std::string_view all = source_;
    for (std::size_t tag = all.find("{%", at_); tag != all.npos; tag = all.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      std::string_view after = strip(all.substr(tag + (sign == ' ' ? 2 : 3)), Side::kLeft);
      if (!after.starts_with("endraw")) continue;
      after = strip(after.substr(6), Side::kLeft);
      const char end_sign = sign_at(all.size() - after.size());
      if (end_sign != ' ') after.remove_prefix(1);
      if (!after.starts_with("%}")) continue;
      add_text(rest().substr(0, tag - at_), sign, false);
      skip(rest().size() - after.size() + 2);
      return after_block(end_sign);
    }
    refuse("a raw block must end with {% endraw %}; add it");
  }

  // The tokens of {{ }} or {% %}.
  void read_tag(bool is_output) {
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) refuse("a tag must have its end; add }} or %}");
      if (brackets_.empty() && ends_tag(is_output)) return;
      read_token();
    }
  }

  bool ends_tag(bool is_output) {
    const std::string_view end = is_output ? "}}" : "%}";
    const char sign = sign_at(at_);
    const bool signed_end =
        (sign == '-' || (sign == '+' && !is_output)) && rest().substr(1).starts_with(end);
    if (!signed_end && !rest().starts_with(end)) return false;
    add(is_output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd);
    skip(signed_end ? 3 : 2);
    if (is_output) {
      if (signed_end) skip_spaces();
      line_starting_ = source_[at_ - 1] == '\n';
    } else {
      after_block(signed_end ? sign : ' ');
    }
    return true;
  }

  void read_token() {
    const char first = source_[at_];
    if (is_digit(first)) return read_number();
    if (is_name(first)) {
      std::size_t length = 0;
      while (length < rest().size() && is_name(rest()[length])) ++length;
      add(TokenKind::kName, std::string(rest().substr(0, length)));
      return skip(length);
    }
    if (first == '"' || first == '\'') return read_string(first);
    for (const std::string_view symbol : kOperators) {
      if (!rest().starts_with(symbol)) continue;
      balance(symbol[0]);
      add(TokenKind::kOperator, std::string(symbol));
      return skip(symbol.size());
    }
    refuse("a name, a value or an operator is required; correct the template (", first, ")");
  }

  void balance(char symbol) {
    constexpr std::string_view kOpen = "{([";
    constexpr std::string_view kClosed = "})]";
    if (kOpen.find(symbol) != kOpen.npos) brackets_ += kClosed[kOpen.find(symbol)];
    if (kClosed.find(symbol) == kClosed.npos) return;
    if (brackets_.empty() || brackets_.back() != symbol)
      refuse("brackets must be in pairs; correct the template (", symbol, ")");
    brackets_.pop_back();
  }

  // Digits of `base` with single underscores between them, without the underscores.
  std::string digits(int base, std::size_t& at) const {
    std::string found;
    while (at < source_.size()) {
      const std::size_t digit_at = source_[at] == '_' && !found.empty() ? at + 1 : at;
      const char one = digit_at < source_.size() ? source_[digit_at] : ' ';
      unsigned char value = 0;
      const auto parsed = std::from_chars(&one, &one + 1, value, base);
      if (parsed.ec != std::errc()) break;
      found += one;
      at = digit_at + 1;
    }
    return found;
  }

  void read_number() {
    if (read_float()) return;
    std::size_t at = at_;
    int base = 10;
    if (source_[at] == '0' && at + 2 < source_.size()) {
      const char mark = static_cast<char>(source_[at + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (base != 10) at += 2;
    }
    std::string text;
    if (base == 10 && source_[at] == '0') {
      while (at < source_.size() && source_[at] == '0') text += source_[at++];
    } else {
      text = digits(base, at);
    }
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (parsed.ec != std::errc()) refuse("an integer of at most 64 bits is required (", text, ")");
    add(TokenKind::kNumber, text);
    tokens_.back().value = number;
    skip(at - at_);
  }

  bool read_float() {
    if (at_ > 0 && source_[at_ - 1] == '.') return false;
    std::size_t at = at_;
    std::string text = digits(10, at);
    bool is_float = false;
    if (at + 1 < source_.size() && source_[at] == '.' && is_digit(source_[at + 1])) {
      text += '.';
      text += digits(10, ++at);
      is_float = true;
    }
    if (at < source_.size() && (source_[at] | 0x20) == 'e') {
      std::size_t exponent_at = at + 1;
      std::string exponent = "e";
      if (sign_at(exponent_at) != ' ') exponent += source_[exponent_at++];
      const std::string number = digits(10, exponent_at);
      if (!number.empty()) {
        text += exponent + number;
        at = exponent_at;
        is_float = true;
      }
    }
    if (!is_float) return false;
    add(TokenKind::kNumber, text);
    tokens_.back().value = std::strtod(text.c_str(), nullptr);
    skip(at - at_);
    return true;
  }

  void read_string(char quote) {
    std::size_t at = at_ + 1;
    std::string text;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] != '\\') {
        text += source_[at++];
      } else {
        read_escape(text, ++at);
      }
    }
    if (at >= source_.size()) refuse("text in quotes must end with ", quote, "; add it");
    add(TokenKind::kString, std::move(text));
    skip(at + 1 - at_);
  }

  // Python's escapes: what follows '\\' at `at`, which moves behind it.
  void read_escape(std::string& text, std::size_t& at) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kMeant = "\\'\"\a\b\f\n\r\t\v";
    const char letter = at < source_.size() ? source_[at] : ' ';
    const std::size_t known = kLetters.find(letter);
    if (letter == '\n') {
      ++at;
    } else if (known != kLetters.npos) {
      text += kMeant[known];
      ++at;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const std::size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      append_code(text, source_.substr(at + 1, count), count, 16);
      at += 1 + count;
    } else if (letter >= '0' && letter <= '7') {
      std::size_t count = 0;
      while (count < 3 && at + count < source_.size() && source_[at + count] >= '0' &&
             source_[at + count] <= '7')
        ++count;
      append_code(text, source_.substr(at, count), count, 8);
      at += count;
    } else if (letter == 'N') {
      refuse("characters by name are not supported; write \\u and four digits");
    } else {
      text += '\\';
    }
  }

  void append_code(std::string& text, const std::string& code, std::size_t count, int base) {
    std::uint32_t point = 0;
    const auto parsed = std::from_chars(code.data(), code.data() + code.size(), point, base);
    if (code.size() != count || parsed.ptr != code.data() + code.size() || point > 0x10FFFF ||
        (point >= 0xD800 && point < 0xE000))
      refuse("an escape must be a code point; correct it (\\", code, ")");
    append_utf8(text, point);
  }

  std::string source_;
  const std::string& file_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last match of a tag ended a line
  std::string brackets_;       // that are open in a tag: their ends
};

}  // namespace

std::vector<Token> read_tokens(std::string_view source, const std::string& file) {
  return Lexer(source, file).read();
}

}  // namespace fm::jinja
