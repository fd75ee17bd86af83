#include "observe/report/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "core/text.h"

namespace fm::report {
namespace {

constexpr const char* kUnknown = "\u2013";  // an en dash
constexpr double kMostWhole = 9e15;

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

std::string formatted(const char* pattern, double value) {
  char text[400];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

std::string with_commas(double value) {
  if (!std::isfinite(value)) return kUnknown;
  if (std::abs(value) > kMostWhole) return formatted("%.4g", value);
  return core::grouped(formatted("%.0f", value));
}

std::string plain(double value, int digits) {
  if (!std::isfinite(value)) return kUnknown;
  const double size = std::abs(value);
  if (size >= std::pow(10, digits - 1) && size < 1e12) return with_commas(value);
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", digits, value);
  return text;
}

std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > kMostWhole) return kUnknown;
  if (seconds < 1) return formatted("%.3g ms", seconds * 1e3);
  if (seconds < 59.95) return formatted("%.1f s", seconds);
  if (seconds < 3600) {
    const double whole = std::floor(seconds + 0.5);
    return formatted("%.0f min", std::floor(whole / 60)) +
           formatted(" %.0f s", std::fmod(whole, 60));
  }
  const double minutes = std::floor(seconds / 60 + 0.5);
  const double hours = std::floor(minutes / 60);
  if (hours < 48)
    return formatted("%.0f h", hours) + formatted(" %.0f min", std::fmod(minutes, 60));
  return formatted("%.0f d", std::floor(hours / 24)) + formatted(" %.0f h", std::fmod(hours, 24));
}

std::string date(double unix_seconds) {
  if (!(unix_seconds > 0 && unix_seconds < 2.5e11)) return kUnknown;  // before the year 9999
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string bytes(double count) {
  if (!(count >= 0 && count < kMostWhole)) return kUnknown;
  return core::human(core::Bytes(static_cast<std::int64_t>(count)));
}

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
