#include "tests/tidy/documents.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace fm::tidy {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

int words_in(const std::string& line) {
  std::istringstream in(line);
  int count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

// Characters of UTF-8: bytes that do not continue one.
int columns_of(const std::string& line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string without_indent(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? "" : line.substr(first);
}

bool is_fence(const std::string& line) { return without_indent(line).starts_with("```"); }

bool begins_item(const std::string& line) {
  const std::string text = without_indent(line);
  if (text.starts_with("- ") || text.starts_with("* ")) return true;
  const std::size_t digits = text.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string::npos && text.substr(digits).starts_with(". ");
}

// A line that belongs to no paragraph.
bool stands_alone(const std::string& line) {
  const std::string text = without_indent(line);
  return text.empty() || text.starts_with('#') || text.starts_with('|');
}

bool is_path_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./{},").find(c) != std::string_view::npos;
}

// Words in backticks that can only be paths: with a slash, and a folder or a file with an ending.
bool looks_like_a_path(const std::string& word) {
  if (word.find('/') == std::string::npos || word.starts_with('/')) return false;
  if (!std::all_of(word.begin(), word.end(), is_path_char)) return false;
  const std::string last = word.substr(word.rfind('/') + 1);
  return last.empty() || last.find('.') != std::string::npos;
}

// "a.{h,cc}" is "a.h" and "a.cc".
std::vector<std::string> expanded(const std::string& path) {
  const std::size_t open = path.find('{');
  const std::size_t close = path.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {path};
  std::vector<std::string> out;
  std::istringstream choices(path.substr(open + 1, close - open - 1));
  for (std::string choice; std::getline(choices, choice, ',');) {
    out.push_back(path.substr(0, open) + choice + path.substr(close + 1));
  }
  return out;
}

// The parts of `line` between `open` and `close`.
std::vector<std::string> between(const std::string& line, const std::string& open,
                                 const std::string& close) {
  std::vector<std::string> parts;
  std::size_t at = line.find(open);
  while (at != std::string::npos) {
    const std::size_t first = at + open.size();
    const std::size_t end = line.find(close, first);
    if (end == std::string::npos) break;
    parts.push_back(line.substr(first, end - first));
    at = line.find(open, end + close.size());
  }
  return parts;
}

std::vector<std::string> paths_in(const std::string& line) {
  std::vector<std::string> paths;
  for (const std::string& words : between(line, "`", "`")) {
    const std::string word = words.substr(0, words.find(": "));  // `path: function`
    if (looks_like_a_path(word)) paths.push_back(word);
  }
  for (const std::string& target : between(line, "](", ")")) {
    if (target.find("://") != std::string::npos || target.starts_with('#')) continue;
    paths.push_back(target.substr(0, target.find('#')));
  }
  return paths;
}

std::string without_dot(const std::string& path) {
  return path.starts_with("./") ? path.substr(2) : path;
}

}  // namespace

Findings document_lengths(const std::string& text, const DocumentLimits& limits) {
  Findings found;
  bool code = false;
  int words = 0;
  int first = 0;  // line of the paragraph
  const auto end_paragraph = [&] {
    if (words > limits.paragraph_words) {
      found.push_back({first, "a paragraph has at most " + std::to_string(limits.paragraph_words) +
                                  " words, this one " + std::to_string(words)});
    }
    words = 0;
  };
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    const int columns = columns_of(line);
    if (columns > limits.columns && words_in(line) > 1) {
      found.push_back({number, "a line of Markdown has at most " + std::to_string(limits.columns) +
                                   " columns, this one " + std::to_string(columns)});
    }
    const bool fence = is_fence(line);
    if (fence) code = !code;
    if (fence || code || stands_alone(line) || begins_item(line)) end_paragraph();
    if (fence || code || stands_alone(line)) continue;
    if (words == 0) first = number;
    words += words_in(line);
  }
  end_paragraph();
  return found;
}

Findings named_paths(const std::string& text, const std::set<std::string>& made,
                     const Exists& exists) {
  Findings found;
  bool code = false;
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    if (is_fence(line)) code = !code;
    if (code) continue;
    for (const std::string& written : paths_in(line)) {
      const std::string path = without_dot(written);
      if (made.contains(path.substr(0, path.find('/')))) continue;
      for (const std::string& each : expanded(path)) {
        if (!exists(each)) found.push_back({number, "nothing is at " + each});
      }
    }
  }
  return found;
}

std::vector<Citation> cited_documents(const std::string& text) {
  std::vector<Citation> cited;
  const std::string ending = ".md";
  int number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    const std::size_t comment = std::min(line.find("//"), line.find('#'));
    if (comment == std::string::npos) continue;
    for (std::size_t at = line.find(ending, comment); at != std::string::npos;
         at = line.find(ending, at + 1)) {
      std::size_t first = at;
      while (first > comment && is_path_char(line[first - 1]) && line[first - 1] != ',') --first;
      const std::size_t behind = at + ending.size();
      const bool whole = behind == line.size() || !is_path_char(line[behind]) ||
                         line[behind] == '.' || line[behind] == ',';
      if (!whole || first == at) continue;
      Citation here{number, line.substr(first, behind - first), ""};
      const std::vector<std::string> quoted = between(line.substr(behind), "\"", "\"");
      if (line.substr(behind).starts_with(", \"") && !quoted.empty()) here.section = quoted.front();
      cited.push_back(here);
    }
  }
  return cited;
}

bool has_heading(const std::string& text, const std::string& words) {
  const std::vector<std::string> lines = lines_of(text);
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    const std::size_t level = line.find_first_not_of('#');
    return level != 0 && level != std::string::npos && line.substr(level) == " " + words;
  });
}

}  // namespace fm::tidy
