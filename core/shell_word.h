// Quotes for a shell.
#pragma once

#include <string>

namespace fm::core {

// A word as a shell reads it back: itself where it is plain, else in single quotes.
std::string shell_word(const std::string& text);

}  // namespace fm::core
