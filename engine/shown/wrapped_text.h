// Lines that fit a window.
#pragma once

#include <string>
#include <string_view>

namespace fm::engine {

inline constexpr int kFileColumns = 100;  // where a text goes into a file

struct Window {
  int columns = kFileColumns;
  int indent = 0;  // of what goes on in the next line
};

// One line as several, of at most so many columns where it has spaces. It is broken behind a comma,
// a semicolon or a colon where one is in the second half of a line, else at a space, but not beside
// a lone "/", "=" or "x".
std::string wrapped(std::string_view line, const Window& window);

}  // namespace fm::engine
