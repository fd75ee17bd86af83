#include "observe/report/numbers.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "core/text.h"

namespace fm::report {
namespace {

constexpr const char* kUnknown = "\u2013";  // an en dash
constexpr double kMostWhole = 9e15;

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

}  // namespace fm::report
