#include "engine/shown/wrapped_text.h"

#include <algorithm>
#include <cstddef>

namespace fm::engine {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

// Columns of UTF-8: bytes that begin a character.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

// Bytes of the longest head of so many columns.
std::size_t head_of(std::string_view text, std::size_t columns) {
  std::size_t bytes = text.size();
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80;
    if (begins && columns-- == 0) return at;
  }
  return bytes;
}

bool joins(std::string_view word) { return word == "/" || word == "=" || word == "x"; }

// Whether what stands before or behind the space binds both sides.
bool is_bound(std::string_view line, std::size_t space) {
  const std::string_view before = line.substr(0, space);
  const std::string_view behind = line.substr(space + 1);
  const std::size_t begin = before.rfind(' ');
  return joins(before.substr(begin == kNowhere ? 0 : begin + 1)) ||
         joins(behind.substr(0, behind.find(' ')));
}

// Where the line is broken: at a space behind `least`, of a long word behind it; kNowhere.
std::size_t break_of(std::string_view line, std::size_t least, std::size_t columns) {
  const std::size_t most = head_of(line, columns + 1);
  const std::size_t half = least + (most - std::min(most, least)) / 2;
  std::size_t loose = kNowhere;
  std::size_t any = kNowhere;
  for (std::size_t space = line.rfind(' ', most - 1); space != kNowhere && space > least;
       space = line.rfind(' ', space - 1)) {
    if (any == kNowhere) any = space;
    if (is_bound(line, space)) continue;
    if (loose == kNowhere) loose = space;
    if (space < half) break;
    if (std::string_view(",;:").find(line[space - 1]) != kNowhere) return space;
  }
  if (any == kNowhere) return line.find(' ', std::max(most, least + 1));
  return loose == kNowhere ? any : loose;
}

}  // namespace

std::string wrapped(std::string_view line, const Window& window) {
  const auto columns = static_cast<std::size_t>(std::max(window.columns, 20));
  const std::string indent(static_cast<std::size_t>(window.indent), ' ');
  std::string out;
  std::string left(line);
  while (columns_of(left) > columns) {
    const std::size_t space = break_of(left, indent.size(), columns);
    if (space == kNowhere) break;
    out += left.substr(0, space) + "\n";
    left.replace(0, space + 1, indent);
  }
  return out + left;
}

}  // namespace fm::engine
