// Numbers as people read them.
#pragma once

#include <string>

namespace fm::report {

std::string formatted(const char* pattern, double value);
// "0.0123", "2.5e-05", "1,234": `digits` significant ones; "–" when not finite.
std::string plain(double value, int digits = 4);
// "12,345,678", whole; "–" when not finite.
std::string with_commas(double value);
// "3 h 12 min", "45.2 s", "12 ms".
std::string duration(double seconds);
// "2026-01-02 03:04:05 UTC", or "–".
std::string date(double unix_seconds);
// "158.4 MB".
std::string bytes(double count);

}  // namespace fm::report
