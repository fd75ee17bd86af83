// Numbers and texts of a page.
#pragma once

#include <string>
#include <string_view>

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

// Text inside HTML and SVG.

// As text or as a quoted attribute, whatever bytes it holds: markup is escaped, control characters
// and what is no UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// The name of a colour, f<number> as a fill and s<number> as a stroke. The same name, of a phase or
// of an instruction, has the same colour everywhere; `nth` decides for names that nobody knows.
int colour_of(std::string_view name, int nth);
inline constexpr int kColours = 12;

}  // namespace fm::report
