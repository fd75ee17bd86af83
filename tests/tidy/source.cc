#include "tests/tidy/source.h"

#include <algorithm>
#include <cctype>

#include "tests/tidy/scopes.h"

namespace fm::tidy {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Cuts text into tokens and directives; comments vanish.
class Lexer {
 public:
  explicit Lexer(Source& source) : source_(source), text_(source.text) {}

  void run() {
    bool line_start = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
        line_start = true;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else if (starts("//")) {
        skip_to(text_.find('\n', at_));
      } else if (starts("/*")) {
        skip_to(past(text_.find("*/", at_), 2));
      } else if (c == '#' && line_start) {
        take_directive();
      } else {
        line_start = false;
        take_token(c);
      }
    }
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  std::size_t past(std::size_t found, std::size_t length) const {
    return found == std::string_view::npos ? text_.size() : found + length;
  }

  void skip_to(std::size_t end) {
    end = std::min(end, text_.size());
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  void take_directive() {
    std::size_t end = text_.find('\n', at_);
    while (end != std::string_view::npos && text_[end - 1] == '\\') end = text_.find('\n', end + 1);
    end = std::min(end, text_.size());
    source_.directives.push_back({text_.substr(at_, end - at_), line_});
    skip_to(end);
  }

  void take_token(char c) {
    const int line = line_;
    if (is_word(c)) {
      std::size_t end = at_;
      while (end < text_.size() && in_word(end)) ++end;
      const std::string_view word = text_.substr(at_, end - at_);
      at_ = end;
      if (word == "R" && starts("\"")) return take_raw_string(line);
      source_.tokens.push_back({word, line});
    } else if (c == '"' || c == '\'') {
      take_literal(c, line);
    } else {
      const std::size_t length = starts("::") ? 2 : 1;
      source_.tokens.push_back({text_.substr(at_, length), line});
      at_ += length;
    }
  }

  // A ' between two digits separates them (1'000).
  bool in_word(std::size_t at) const {
    if (is_word(text_[at])) return true;
    return text_[at] == '\'' && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 &&
           at + 1 < text_.size() && is_word(text_[at + 1]);
  }

  void take_literal(char quote, int line) {
    const std::string_view token = text_.substr(at_, 1);
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
    source_.tokens.push_back({token, line});
  }

  void take_raw_string(int line) {
    const std::size_t open = past(text_.find('(', at_), 0);
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    source_.tokens.push_back({text_.substr(at_, 1), line});
    skip_to(past(text_.find(close, open), close.size()));
  }

  Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

void split_lines(Source& source) {
  const std::string_view text = source.text;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    source.lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

void find_includes(Source& source) {
  for (const Directive& directive : source.directives) {
    if (directive.text.find("include") == std::string_view::npos) continue;
    const std::size_t open = directive.text.find_first_of("\"<");
    if (open == std::string_view::npos) continue;
    const std::size_t close = directive.text.find_first_of("\">", open + 1);
    const std::string_view file = directive.text.substr(open + 1, close - open - 1);
    source.includes.push_back({file, directive.text[open] == '"', directive.line});
  }
}

}  // namespace

Source::Source(std::string path_in, std::string text_in)
    : path(std::move(path_in)), text(std::move(text_in)) {
  split_lines(*this);
  Lexer(*this).run();
  find_includes(*this);
  find_scopes(*this);
}

std::string wing_of(std::string_view path) {
  const std::size_t folder = path.find('/');
  const std::size_t wing = folder == path.npos ? folder : path.find('/', folder + 1);
  return std::string(path.substr(0, wing == path.npos ? folder : wing));
}

std::string Source::wing() const { return wing_of(path); }

std::string Source::folder() const { return path.substr(0, path.find('/')); }

std::string Source::stem() const {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

bool Source::is_header() const { return path.ends_with(".h") || path.ends_with(".hpp"); }

bool Source::is_test() const { return folder() == "tests" || folder() == "benchmarks"; }

bool Source::has_main() const {
  for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].is("int") && tokens[i + 1].is("main") && tokens[i + 2].is("(")) return true;
  }
  return false;
}

bool Source::inside_function(int line) const {
  return std::any_of(functions.begin(), functions.end(), [line](const Function& f) {
    return f.first_line < line && line < f.last_line;
  });
}

}  // namespace fm::tidy
