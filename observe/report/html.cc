#include "observe/report/html.h"

#include <algorithm>
#include <array>

namespace fm::report {
namespace {

// Length of the character at the head of `text`, 0 when it is no UTF-8 (RFC 3629, section 4).
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character(text);
    const char letter = text[0];
    const auto code = static_cast<unsigned char>(letter);
    const bool control = code == 0x7F || (code < 0x20 && letter != '\n' && letter != '\t');
    if (length == 0 || control) {
      out += "\uFFFD";
    } else if (letter == '&') {
      out += "&amp;";
    } else if (letter == '<') {
      out += "&lt;";
    } else if (letter == '>') {
      out += "&gt;";
    } else if (letter == '"') {
      out += "&quot;";
    } else if (letter == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

int colour_of(std::string_view name, int nth) {
  constexpr std::array<std::string_view, 9> kKnown = {
      "forward", "backward", "reduce", "gather", "optimizer", "loss", "pipe", "data", "other"};
  const auto found = std::find(kKnown.begin(), kKnown.end(), name);
  const int known = static_cast<int>(kKnown.size());
  return found != kKnown.end() ? static_cast<int>(found - kKnown.begin())
                               : known + nth % (kColours - known);
}

}  // namespace fm::report
