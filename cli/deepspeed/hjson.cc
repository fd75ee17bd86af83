#include "cli/deepspeed/hjson.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr std::string_view kPunctuators = "{}[],:";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name)
      : text_(core::without_byte_order_mark(text)), name_(name) {}

  JsonTree root() {
    skip_blank();
    const bool written = peek() == '{' || peek() == '[';
    JsonTree value = written ? parse_value(0) : parse_members(0, Braces::kLeftOut);
    skip_blank();
    require(at_ >= text_.size(), "the file must end after its object; remove the rest");
    return value;
  }

 private:
  enum class Braces : std::uint8_t { kWritten, kLeftOut };

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool ended() const { return at_ >= text_.size(); }
  bool starts(std::string_view token) const { return text_.substr(at_).starts_with(token); }
  void advance() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }

  void require(bool condition, const std::string& message) const {
    FM_USER_CHECK(condition, message, " (", name_, ":", line_, ")");
  }

  void skip_line() {
    while (!ended() && peek() != '\n') advance();
  }

  void skip_blank() {
    while (!ended()) {
      if (is_space(peek())) {
        advance();
      } else if (peek() == '#' || starts("//")) {
        skip_line();
      } else if (starts("/*")) {
        skip_block_comment();
      } else {
        return;
      }
    }
  }

  void skip_block_comment() {
    const std::size_t end = text_.find("*/", at_ + 2);
    require(end != std::string_view::npos, "a comment /* must be closed by */");
    while (at_ < end + 2) advance();
  }

  JsonTree parse_value(std::size_t depth) {
    require(depth < core::kMostTreeDepth,
            "objects and lists may be nested 64 deep; flatten the file");
    skip_blank();
    require(!ended(), "a value is missing at the end; write it");
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"':
      case '\'': return parse_text();
      default:  // anything else starts a keyword, a number or a text without quotes
        return parse_tfnns();
    }
  }

  JsonTree parse_object(std::size_t depth) {
    advance();
    return parse_members(depth, Braces::kWritten);
  }

  JsonTree parse_members(std::size_t depth, Braces braces) {
    JsonTree object;
    object.kind = JsonKind::kObject;
    object.line = line_;
    while (true) {
      skip_blank();
      if (ended() && braces == Braces::kLeftOut) break;
      require(!ended(), core::concat("the object that starts on line ", object.line,
                                     " must be closed by }; add it", swallowed_));
      if (peek() == '}' && braces == Braces::kWritten) {
        advance();
        break;
      }
      parse_member(object, depth);
    }
    refuse_duplicates(object);
    return object;
  }

  void parse_member(JsonTree& object, std::size_t depth) {
    const int key_line = line_;
    std::string key = parse_key();
    skip_blank();
    require(peek() == ':', core::concat("a colon must follow the key '", key, "'; add it"));
    advance();
    JsonTree value = parse_value(depth + 1);
    value.line = key_line;
    object.members.push_back({std::move(key), std::move(value)});
    skip_blank();
    if (peek() == ',') advance();
  }

  std::string parse_key() {
    if (peek() == '"' || peek() == '\'') return parse_quoted();
    const std::size_t begin = at_;
    while (!ended() && peek() != ':' && peek() != '\n') {
      require(kPunctuators.find(peek()) == std::string_view::npos,
              core::concat("a key name is required where '", peek(),
                           "' stands; quote the name if it holds {}[],: or spaces"));
      advance();
    }
    const std::string_view key = trim(text_.substr(begin, at_ - begin));
    require(!key.empty(), "a key name is required; for an empty name use quotes");
    require(key.find_first_of(" \t") == std::string_view::npos,
            core::concat("a key name without quotes must not hold spaces; quote it: '",
                         std::string(key), "'"));
    return std::string(key);
  }

  JsonTree parse_array(std::size_t depth) {
    JsonTree array;
    array.kind = JsonKind::kArray;
    array.line = line_;
    advance();
    while (true) {
      skip_blank();
      require(!ended(), core::concat("the list that starts on line ", array.line,
                                     " must be closed by ]; add it", swallowed_));
      if (peek() == ']') {
        advance();
        return array;
      }
      array.items.push_back(parse_value(depth + 1));
      skip_blank();
      if (peek() == ',') advance();
    }
  }

  JsonTree parse_text() {
    JsonTree value;
    value.kind = JsonKind::kString;
    value.line = line_;
    value.text = starts("'''") ? parse_multiline() : parse_quoted();
    return value;
  }

  std::string parse_quoted() {
    const char quote = peek();
    std::string out;
    advance();
    while (true) {
      const bool line_end = ended() || peek() == '\n' || starts("\r\n");
      require(!line_end, "a quoted text must end on its line; close it");
      const char c = peek();
      refuse_control(c);
      advance();
      if (c == quote) return out;
      if (c == '\\') {
        parse_escape(out);
      } else {
        out += c;
      }
    }
  }

  void refuse_control(char c) const {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20) return;
    char escape[8] = "\\t";
    if (c != '\t') std::snprintf(escape, sizeof(escape), "\\u%04x", code);
    require(false, core::concat("a quoted text must hold no control character; write ", escape));
  }

  void parse_escape(std::string& out) {
    constexpr std::string_view kCodes = "\"'\\/bfnrt";
    constexpr std::string_view kMeant = "\"'\\/\b\f\n\r\t";
    require(!ended(), "a quoted text must end on its line; close it");
    const char c = peek();
    advance();
    if (c == 'u') {
      append_utf8(out, parse_code_point());
      return;
    }
    const std::size_t code = kCodes.find(c);
    require(
        code != std::string_view::npos,
        core::concat("an escape is one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX; found \\", c));
    out += kMeant[code];
  }

  std::uint32_t parse_code_point() {
    const std::string pairs = "\\u surrogates must come in pairs, high before low; correct them";
    const std::uint32_t high = parse_hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    require(high <= 0xDBFF && starts("\\u"), pairs);  // half a pair is no UTF-8
    at_ += 2;
    const std::uint32_t low = parse_hex4();
    require(low >= 0xDC00 && low <= 0xDFFF, pairs);
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  std::uint32_t parse_hex4() {
    const std::string_view digits = text_.substr(at_, 4);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), code, 16);
    require(error == std::errc() && end == digits.begin() + 4,
            "four hexadecimal digits must follow \\u; correct them");
    at_ += 4;
    return code;
  }

  // Lines lose the indentation of the opening quotes; a first and a last empty line are dropped.
  std::string parse_multiline() {
    const std::size_t line_begin = text_.rfind('\n', at_) + 1;  // npos + 1 is 0
    const std::size_t indent = at_ - line_begin;
    const std::size_t end = text_.find("'''", at_ + 3);
    require(end != std::string_view::npos, "a text in ''' must be closed by '''");
    std::vector<std::string> lines = core::split(text_.substr(at_ + 3, end - at_ - 3), '\n');
    while (at_ < end + 3) advance();
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::size_t blank = std::min(lines[i].find_first_not_of(" \t\r"), lines[i].size());
      lines[i].erase(0, std::min(indent, blank));
    }
    if (lines.size() > 1 && trim(lines.front()).empty()) lines.erase(lines.begin());
    if (lines.size() > 1 && trim(lines.back()).empty()) lines.pop_back();
    return core::join(lines, "\n");
  }

  // "true, false, null, number or string": a keyword or number ends at punctuation; all else runs
  // to the end of the line, commas included, as hjson has it.
  JsonTree parse_tfnns() {
    require(kPunctuators.find(peek()) == std::string_view::npos,
            core::concat("a value is required where '", peek(), "' stands; write or quote it",
                         swallowed_));
    const std::size_t begin = at_;
    const int line = line_;
    while (true) {
      const bool line_end = ended() || peek() == '\n';
      const bool mark = std::string_view(",}]#").find(peek()) != std::string_view::npos ||
                        starts("//") || starts("/*");
      if (line_end || (!ended() && mark)) {
        const std::string_view token = trim(text_.substr(begin, at_ - begin));
        std::optional<JsonTree> value = keyword_or_number(token);
        if (!value && line_end) value = unquoted(token, line);
        if (value) {
          value->line = line;
          return *std::move(value);
        }
      }
      advance();
    }
  }

  JsonTree unquoted(std::string_view token, int line) {
    constexpr std::size_t kMost = 60;
    JsonTree value;
    value.kind = JsonKind::kString;
    value.text = std::string(token);
    if (token.find_first_of("}]") != std::string_view::npos) {
      swallowed_ = core::concat(" (the text without quotes on line ", line,
                                " runs to its end: ", token.substr(0, kMost),
                                token.size() > kMost ? "..." : "", "; quote it)");
    }
    return value;
  }

  static std::optional<JsonTree> keyword_or_number(std::string_view token) {
    JsonTree value;
    if (token == "null") return value;
    if (token == "true" || token == "false") {
      value.kind = JsonKind::kBool;
      value.boolean = token == "true";
      return value;
    }
    const std::optional<double> number = parse_number(token);
    if (!number) return std::nullopt;
    value.kind = JsonKind::kNumber;
    value.number = *number;
    value.text = std::string(token);
    return value;
  }

  void refuse_duplicates(const JsonTree& object) const {
    std::vector<std::string> duplicates;
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < object.members.size(); ++i) {
      const auto& [key, value] = object.members[i];
      const auto first = std::ranges::find(object.members, key, &JsonTree::Member::key);
      if (&first->value == &value) continue;
      const std::string quoted = "'" + key + "'";
      if (std::find(duplicates.begin(), duplicates.end(), quoted) == duplicates.end()) {
        duplicates.push_back(quoted);
      }
      lines.push_back(core::concat(name_, ":", value.line, ", first on line ", first->value.line));
    }
    FM_USER_CHECK(duplicates.empty(), "Duplicate keys in DeepSpeed config: [",
                  core::join(duplicates, ", "), "]; keep one of each (", core::join(lines, "; "),
                  ")");
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string swallowed_;  // the last text without quotes that holds a closing brace, for messages
};

}  // namespace

std::optional<double> parse_number(std::string_view token) {
  std::string_view rest = token;
  if (rest.starts_with('-')) rest.remove_prefix(1);
  if (rest.empty() || !is_digit(rest[0])) return std::nullopt;
  if (rest.size() > 1 && rest[0] == '0' && is_digit(rest[1])) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  const bool whole = end == token.data() + token.size() && token.back() != '.';
  if (error != std::errc() || !whole) return std::nullopt;
  return number;
}

std::string show(const JsonTree& value) {
  switch (value.kind) {
    case JsonKind::kNull: return "null";
    case JsonKind::kBool: return value.boolean ? "true" : "false";
    case JsonKind::kNumber: return value.text;
    case JsonKind::kString: return "\"" + value.text + "\"";
    case JsonKind::kObject: return "{...}";
    case JsonKind::kArray: break;
  }
  std::vector<std::string> items;
  for (const JsonTree& item : value.items) items.push_back(show(item));
  return "[" + core::join(items, ", ") + "]";
}

JsonTree parse_hjson(std::string_view text, const std::string& name) {
  return Parser(text, name).root();
}

}  // namespace fm::cli
