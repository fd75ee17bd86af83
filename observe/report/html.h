// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace fm::report {

// As text or as a quoted attribute, whatever bytes it holds: markup is escaped, control characters
// and what is no UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// The name of a colour, f<number> as a fill and s<number> as a stroke. The same name, of a phase or
// of an instruction, has the same colour everywhere; `nth` decides for names that nobody knows.
int colour_of(std::string_view name, int nth);
inline constexpr int kColours = 12;

}  // namespace fm::report
